"""One tool call, from judging it to its outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from lembasd.device.paths import find_paths
from lembasd.engine.api import Host
from lembasd.engine.native.core import call_titles, wishes
from lembasd.engine.native.core.ground import Ground
from lembasd.engine.native.judging import Denied, Judging, Unfit
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.login_environment import LoginEnvironment
from lembasd.engine.native.mcp.servers import Servers
from lembasd.engine.native.searches import Searches
from lembasd.engine.native.tools.apply_patch import apply_patch
from lembasd.engine.native.tools.bash import Commands
from lembasd.engine.native.tools.edit import edit, multiedit
from lembasd.engine.native.tools.files import Files, Target, Use
from lembasd.engine.native.tools.glob import glob
from lembasd.engine.native.tools.grep import grep
from lembasd.engine.native.tools.list import list_directory
from lembasd.engine.native.tools.outcome import Outcome, Unusable, shown
from lembasd.engine.native.tools.read import read
from lembasd.engine.native.tools.recall import recall
from lembasd.engine.native.tools.settings import settings
from lembasd.engine.native.tools.web_fetch import Fetcher
from lembasd.engine.native.tools.write import write
from lembasd.harness.loader import TOOLS
from lembasd.harness.tool import Tool
from lembasd.protocol.control import Mode
from lembasd.protocol.events import ToolOutput
from lembasd.store.apart import run_apart
from lembasd.store.records import Call

__all__ = ["Calls", "Denied", "Unfit"]

#: tools that look at files and change them: each in a thread
_FILE_TOOLS: Final[dict[str, Callable[[Use, dict[str, Any]], Outcome]]] = {
    "read": read,
    "write": write,
    "edit": edit,
    "multiedit": multiedit,
    "apply_patch": apply_patch,
    "list": list_directory,
}
#: tools that have a process search files
_SEARCHES: Final[dict[str, Callable[[Searches, Use, dict[str, Any]], Awaitable[Outcome]]]] = {
    "glob": glob,
    "grep": grep,
}
#: bytes of a command; the kernel takes no longer argument (Linux: 32 pages, with the NUL at its end)
MAX_COMMAND_BYTES: Final = 131_071
#: a file tool that takes longer hangs on a disk that does not answer; a write may still be made when that comes back
FILE_S: Final = 60.0
_HANGS: Final = "the disk does not answer; see what is there before you try again"
#: path, first and last line, and the hash of the content
Read = tuple[str, int, int, str]


def _run() -> Path:
    return find_paths().run


class Calls:
    """Judges and runs calls. `reads`: what an earlier life of the worker showed the model."""

    def __init__(
        self,
        host: Host,
        epoch: int,
        reads: Iterable[Read] = (),
        efforts: Callable[[], list[str] | None] = lambda: None,
    ) -> None:
        self._host = host
        self._efforts = efforts
        self._fetcher = Fetcher(lambda: host.settings.web_hosts)
        kept = Kept()
        login = LoginEnvironment(host.session_id, epoch, _run, kept=kept)
        #: MCP servers, and the tools of theirs that the session has
        self.servers = Servers(host, epoch, kept, login.current)
        self._judging = Judging(host, self._tool, self.card_title)
        self._commands = Commands(host.session_id, epoch, host.root, login, kept)
        self.searches = Searches(host.session_id, epoch)
        #: what a session's file tools share, and its prompts with them
        self.files = Files(lambda: host.protected, host.session_dir, host.attachments_dir)
        self._reads = list(reads)

    def ground(self) -> Ground:
        """What is protected, as the tools are judged by it. Blocks."""
        return self._judging.ground_now()

    def title(self, call: Call) -> str:
        """What a call is shown as."""
        if call.name in self.servers.tools:
            return self.servers.title(call)
        return call_titles.title(call.name, call.args or {})

    def card_title(self, call: Call) -> str:
        """What a call is asked about as."""
        if call.name in self.servers.tools:
            return self.servers.title(call)
        return call_titles.card_title(call.name, call.args or {})

    async def judge(self, call: Call, mode: Mode) -> Denied | Unfit | dict[str, Any]:
        """The arguments to run with, after asking where the person must say; or why not."""
        if call.name == "settings":
            try:
                wishes.read(call.args or {}, self._host.widest_mode, self._efforts())
            except ValueError as why:
                return Unfit(str(why))
        if call.name == "bash" and (size := _size(call)) > MAX_COMMAND_BYTES:
            # nobody is asked about what cannot run
            return Unfit(
                f"the command is too long ({size:,} bytes, at most {MAX_COMMAND_BYTES:,});"
                " write it to a file and run that"
            )
        return await self._judging.judge(call, mode)

    def _tool(self, name: str) -> Tool:
        return TOOLS.get(name) or self.servers.tools[name]

    async def run(self, call: Call, args: dict[str, Any], started: Callable[[], None]) -> Outcome:
        """Run a call that was judged; `started` is called when its effect begins. Cancel ends what it started."""
        if call.name == "bash":
            return await self._commands.run(args, started, partial(self._show, call.id))
        if call.name in self.servers.tools:
            return await self.servers.run(call, args, started)
        started()
        if call.name == "recall":
            return await recall(self._host, args)
        if call.name == "web_fetch":
            return await self._fetcher.fetch(args)
        if call.name == "settings":
            return settings(self._host, args, self._efforts())
        try:
            if search := _SEARCHES.get(call.name):
                use = await run_apart(lambda: self._use(call, args))
                return await search(self.searches, use, args)
            # a write is not given up in its middle: the thread runs to its end
            async with asyncio.timeout(FILE_S):
                outcome = await run_apart(lambda: self._used(call, args))
            return await self._with_image_kept(outcome)
        except Unusable as unusable:
            return Outcome(str(unusable), is_error=True)
        except TimeoutError:
            return Outcome(_HANGS, is_error=True)
        except (OSError, RuntimeError, ValueError) as error:
            return Outcome(f"{call.name} failed: {error}", is_error=True)

    async def _with_image_kept(self, outcome: Outcome) -> Outcome:
        """The outcome with its image in the session, where every later request finds it."""
        if outcome.image is None:
            return outcome
        try:
            kept = await self._host.keep_image(outcome.image.mime, outcome.image.data)
        except OSError as error:
            said = f"{outcome.output}, but it cannot be shown: {error.strerror or error}"
            return Outcome(said, is_error=True)
        return replace(outcome, image=None, images=[kept])

    def _used(self, call: Call, args: dict[str, Any]) -> Outcome:
        return _FILE_TOOLS[call.name](self._use(call, args), args)

    def _use(self, call: Call, args: dict[str, Any]) -> Use:
        """What a call works on. Raises Unusable."""
        self._recall_reads()
        judged = self._judging.led(call.id)
        # judged again: what the paths led to may have changed since the person said yes
        facts = self._judging.facts(call.name, args)
        if facts != judged:
            names = " or ".join(facts) if len(facts) < 4 else "one of the paths"
            raise Unusable(f"{names} leads elsewhere now; try again")
        root = self._host.root
        paths = {named: Path(one.path) for named, one in facts.items()}
        return Use(
            self.files,
            call.id,
            {named: Target(path, shown(path, root)) for named, path in paths.items()},
        )

    def _recall_reads(self) -> None:
        """What was read before counts as read, once it is needed: finding out where a path leads takes the disk."""
        reads, self._reads = self._reads, []
        for named, _, _, digest in reads:
            with suppress(OSError, RuntimeError, ValueError):
                self.files.learn(self._judging.path(named), digest)

    def _show(self, call_id: str, text: str) -> None:
        self._host.emit(ToolOutput(toolCallId=call_id, text=text))

    async def aclose(self) -> None:
        await self._commands.aclose()
        await self.searches.aclose()
        await self.servers.aclose()


def _size(call: Call) -> int:
    return len(str((call.args or {}).get("command", "")).encode("utf-8", "surrogateescape"))
