"""One tool call, from judging it to its outcome. Holds what a person granted for the session."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from lembasd.device.paths import find_paths
from lembasd.engine.api import CardRequest, Decision, Host
from lembasd.engine.native.core import consent, permission, wishes
from lembasd.engine.native.core.consent import Consent
from lembasd.engine.native.core.named_paths import named_paths
from lembasd.engine.native.core.patch import BadPatch
from lembasd.engine.native.core.permission import CallFacts, PathFacts
from lembasd.engine.native.core.place import absolute
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
#: a file tool that takes longer hangs on a disk that does not answer; a write may still be made when that comes back
FILE_S: Final = 60.0
#: arguments of which one says what a call is about
_ABOUT: Final = ("pattern", "path", "id", "url")
_HANGS: Final = "the disk does not answer; see what is there before you try again"
_KINDS: Final = {
    "shell": "execute",
    "edit": "edit",
    "read": "read",
    "search": "search",
    "web": "fetch",
}


class Denied(Struct, frozen=True):
    """A call that may not run. `by` is the event's word."""

    reason: str
    by: str


class Unfit(Struct, frozen=True):
    """A call whose path leads nowhere (a loop of links, a person who is not there): an error, not a denial."""

    reason: str


#: path, first and last line, and the hash of the content
Read = tuple[str, int, int, str]


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
        #: MCP servers, and the tools of theirs that the session has
        self.servers = Servers(host, epoch, kept)
        self._grants: set[str] = set()
        #: call id: where its paths led when it was judged, by their names
        self._judged: dict[str, dict[str, PathFacts]] = {}
        login = LoginEnvironment(host.session_id, epoch, find_paths().run, kept=kept)
        self._commands = Commands(host.session_id, epoch, host.root, login, kept)
        self._searches = Searches(host.session_id, epoch)
        self._files = Files(lambda: host.protected, host.session_dir)
        self._reads = list(reads)

    def title(self, call: Call) -> str:
        """What a call is shown as."""
        args = call.args or {}
        if call.name in self.servers.tools:
            return self.servers.title(call)
        if call.name == "bash":
            return str(args.get("description") or args.get("command", "")).split("\n")[0][:200]
        if call.name == "settings":
            return f"settings {args.get('key')} {args.get('value')}"[:200]
        about = next((args[one] for one in _ABOUT if args.get(one)), "")
        return f"{call.name} {about}".strip()[:200]

    async def judge(self, call: Call, mode: Mode) -> Denied | Unfit | dict[str, Any]:
        """The arguments to run with, after asking where the person must say; or why not."""
        args = dict(call.args or {})
        tool, paths = self._tool(call.name), dict[str, PathFacts]()
        if call.name in _FILE_TOOLS or call.name in _SEARCHES:
            try:
                paths = await asyncio.to_thread(self._facts_of, call.name, args)
            except BadPatch as bad:
                return Unfit(str(bad))
            except (OSError, RuntimeError, ValueError) as error:
                return Unfit(f"{args.get('path')} cannot be used as a path: {error}")
            self._judged[call.id] = paths
        try:
            if call.name == "settings":
                wishes.read(args, self._host.widest_mode, self._efforts())
            asked = [self._asked(tool, args, path) for path in paths.values() or (None,)]
        except ValueError as why:
            return Unfit(str(why))
        grants = frozenset(self._grants)
        judged = [(permission.judge(facts, mode, grants), asks) for facts, asks in asked]
        # of equals the one that no yes for the session covers
        judged.sort(key=lambda one: one[1].always is not None)
        verdict = permission.strictest(one for one, _ in judged)
        asks = next(asks for one, asks in judged if one is verdict)
        if verdict.kind == permission.ALLOW:
            return args
        decided: Denied | dict[str, Any] = Denied(verdict.reason, verdict.by)
        if verdict.kind == permission.ASK:
            decision = await self._host.ask(self._card(call, args, verdict.reason, asks))
            decided = self._decided(call, args, decision, asks)
        if isinstance(decided, Denied):
            self._judged.pop(call.id, None)
        return decided

    def _asked(
        self, tool: Tool, args: dict[str, Any], path: PathFacts | None
    ) -> tuple[CallFacts, Consent]:
        """What is judged of a call, for one of its paths. Raises ValueError for what can never be asked."""
        asks = consent.of(tool, args, None if path is None else self._below(path))
        facts = CallFacts(
            tool=tool.name,
            risk=tool.risk,
            grant=asks.grant,
            path=path,
            asked=asks.asked,
            confirm=asks.confirm,
        )
        return facts, asks

    def _tool(self, name: str) -> Tool:
        return TOOLS.get(name) or self.servers.tools[name]

    def _below(self, path: PathFacts) -> str:
        return shown(Path(path.path), self._host.root)

    def _card(self, call: Call, args: dict[str, Any], reason: str, asks: Consent) -> CardRequest:
        purpose = args.get("purpose")
        return CardRequest(
            tool_call_id=call.id,
            name=call.name,
            title=self.title(call),
            kind=_KINDS.get(self._tool(call.name).block, "other"),
            args=args,
            reason=reason,
            purpose=purpose if isinstance(purpose, str) and purpose else None,
            always=asks.always,
        )

    def _decided(
        self, call: Call, args: dict[str, Any], decision: Decision, asks: Consent
    ) -> Denied | dict[str, Any]:
        match decision.outcome:
            case "once":
                if decision.command is not None and call.name == "bash":
                    return {**args, "command": decision.command}
                return args
            case "session":
                if asks.always is not None:
                    self._grants.add(asks.grant)
                return args
            case "deny":
                why = f": {decision.feedback}" if decision.feedback else ""
                return Denied(f"The person denied this call{why}", "person")
            case "timeout":
                return Denied("Nobody answered in time, so this call was denied", "timeout")
            case "cancelled":
                return Denied("Cancelled by the person before it ran.", "person")

    def _facts_of(self, tool: str, args: dict[str, Any]) -> dict[str, PathFacts]:
        """Where each path that a call names leads. Raises BadPatch, and what `_path` raises."""
        return {named: self._facts(named) for named in named_paths(tool, args)}

    def _facts(self, named: str) -> PathFacts:
        path, root = self._path(named), self._host.root
        inside = path == root or root in path.parents
        protected = any(path == one or one in path.parents for one in self._host.protected)
        return PathFacts(path=str(path), inside_project=inside, protected=protected)

    def _path(self, named: str) -> Path:
        """Where a path leads: relative to the project, ~ and symlinks followed."""
        user = named[1:].partition("/")[0]
        homes = {user: str(Path(f"~{user}").expanduser())} if named.startswith("~") else {}
        return Path(absolute(PurePosixPath(self._host.root), named, homes)).resolve()

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
                return await search(self._searches, use, args)
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
        judged = self._judged.pop(call.id, None)
        # judged again: what the paths led to may have changed since the person said yes
        facts = self._facts_of(call.name, args)
        if facts != judged:
            names = " or ".join(facts) if len(facts) < 4 else "one of the paths"
            raise Unusable(f"{names} leads elsewhere now; try again")
        root = self._host.root
        paths = {named: Path(one.path) for named, one in facts.items()}
        return Use(
            self._files,
            call.id,
            {named: Target(path, shown(path, root)) for named, path in paths.items()},
        )

    def _recall_reads(self) -> None:
        """What was read before counts as read, once it is needed: finding out where a path leads takes the disk."""
        reads, self._reads = self._reads, []
        for named, _, _, digest in reads:
            with suppress(OSError, RuntimeError, ValueError):
                self._files.learn(self._path(named), digest)

    def _show(self, call_id: str, text: str) -> None:
        self._host.emit(ToolOutput(toolCallId=call_id, text=text))

    async def aclose(self) -> None:
        await self._commands.aclose()
        await self._searches.aclose()
        await self.servers.aclose()
