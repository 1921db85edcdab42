"""One tool call, from judging it to its outcome."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lembasd.engine.api import Host
from lembasd.engine.native.core import wishes
from lembasd.engine.native.judging import Denied, Judging, Unfit
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.mcp.servers import Servers
from lembasd.engine.native.tools.bash import Commands
from lembasd.engine.native.tools.edit import edit
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
from lembasd.store.records import Call

__all__ = ["Calls", "Denied", "Unfit"]

_FILE_TOOLS: Final = {"read": read, "write": write, "edit": edit}


class Calls:
    """Judges and runs calls."""

    def __init__(
        self, host: Host, epoch: int, efforts: Callable[[], list[str] | None] = lambda: None
    ) -> None:
        self._host = host
        self._efforts = efforts
        self._fetcher = Fetcher(lambda: host.settings.web_hosts)
        kept = Kept()
        #: MCP servers, and the tools of theirs that the session has
        self.servers = Servers(host, epoch, kept)
        self._judging = Judging(host, self._tool, self.title)
        self._commands = Commands(host.session_id, epoch, host.root, kept)

    def title(self, call: Call) -> str:
        """What a call is shown as."""
        args = call.args or {}
        if call.name in self.servers.tools:
            return self.servers.title(call)
        if call.name == "bash":
            return str(args.get("description") or args.get("command", "")).split("\n")[0][:200]
        if call.name == "settings":
            return f"settings {args.get('key')} {args.get('value')}"[:200]
        what = args.get("path") or args.get("id") or args.get("url") or ""
        return f"{call.name} {what}".strip()

    async def judge(self, call: Call, mode: Mode) -> Denied | Unfit | dict[str, Any]:
        """The arguments to run with, after asking where the person must say; or why not."""
        if call.name == "settings":
            try:
                wishes.read(call.args or {}, self._host.widest_mode, self._efforts())
            except ValueError as why:
                return Unfit(str(why))
        return await self._judging.judge(call, mode)

    def _tool(self, name: str) -> Tool:
        return TOOLS.get(name) or self.servers.tools[name]

    async def run(self, call: Call, args: dict[str, Any], started: Callable[[], None]) -> Outcome:
        """Run a call that was judged; `started` is called when its effect begins. Cancel ends what it started."""
        if call.name == "bash":
            return await self._commands.run(args, started)
        if call.name in self.servers.tools:
            return await self.servers.run(call, args, started)
        started()
        if call.name == "recall":
            return await recall(self._host, args)
        if call.name == "web_fetch":
            return await self._fetcher.fetch(args)
        if call.name == "settings":
            return settings(self._host, args, self._efforts())
        # a write is not given up in its middle: the thread runs to its end
        return await asyncio.shield(asyncio.to_thread(self._file_tool, call, args))

    def _file_tool(self, call: Call, args: dict[str, Any]) -> Outcome:
        name, judged = call.name, self._judging.led(call.id)
        try:
            # judged again: what the path led to may have changed since the person said yes
            facts = self._judging.facts(name, args)
            if facts != judged:
                return Outcome(f"{args.get('path')} leads elsewhere now; try again", is_error=True)
            path = Path(facts[0].path)
            if name == "list":
                return list_directory(path, shown(path, self._host.root), self._host.protected)
            return _FILE_TOOLS[name](path, shown(path, self._host.root), args)
        except Unusable as unusable:
            return Outcome(str(unusable), is_error=True)
        except (OSError, RuntimeError, ValueError) as error:
            return Outcome(f"{name} failed: {error}", is_error=True)

    async def aclose(self) -> None:
        await self._commands.aclose()
        await self.servers.aclose()
