"""One tool call, from judging it to its outcome. Holds what a person granted for the session."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from lembasd.device.paths import find_paths
from lembasd.engine.api import CardRequest, Decision, Host
from lembasd.engine.native.core import consent, permission, wishes
from lembasd.engine.native.core.consent import Consent
from lembasd.engine.native.core.permission import CallFacts, PathFacts
from lembasd.engine.native.core.place import absolute
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.login_environment import LoginEnvironment
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
from lembasd.protocol.events import ToolOutput
from lembasd.store.records import Call

_FILE_TOOLS: Final = {"read": read, "write": write, "edit": edit}
_KINDS: Final = {"shell": "execute", "edit": "edit", "read": "read", "web": "fetch"}


class Denied(Struct, frozen=True):
    """A call that may not run. `by` is the event's word."""

    reason: str
    by: str


class Unfit(Struct, frozen=True):
    """A call whose path leads nowhere (a loop of links, a person who is not there): an error, not a denial."""

    reason: str


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
        self._grants: set[str] = set()
        #: call id: where its path led when it was judged
        self._judged: dict[str, PathFacts] = {}
        login = LoginEnvironment(host.session_id, epoch, find_paths().run, kept=kept)
        self._commands = Commands(host.session_id, epoch, host.root, login, kept)

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
        args = dict(call.args or {})
        tool = self._tool(call.name)
        path: PathFacts | None = None
        if "path" in tool.parameters["properties"] and call.name in TOOLS:
            try:
                path = await asyncio.to_thread(self._facts, args)
            except (OSError, RuntimeError, ValueError) as error:
                return Unfit(f"{args.get('path')} cannot be used as a path: {error}")
            self._judged[call.id] = path
        try:
            if call.name == "settings":
                wishes.read(args, self._host.widest_mode, self._efforts())
            asks = consent.of(tool, args, None if path is None else self._below(path))
        except ValueError as why:
            return Unfit(str(why))
        facts = CallFacts(
            tool=call.name,
            risk=tool.risk,
            grant=asks.grant,
            path=path,
            asked=asks.asked,
            confirm=asks.confirm,
        )
        verdict = permission.judge(facts, mode, frozenset(self._grants))
        if verdict.kind == permission.ALLOW:
            return args
        if verdict.kind == permission.DENY:
            return Denied(verdict.reason, verdict.by)
        decision = await self._host.ask(self._card(call, args, verdict.reason, asks))
        return self._decided(call, args, decision, asks)

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

    def _facts(self, args: dict[str, Any]) -> PathFacts:
        path, root = self._path(args), self._host.root
        inside = path == root or root in path.parents
        protected = any(path == one or one in path.parents for one in self._host.protected)
        return PathFacts(path=str(path), inside_project=inside, protected=protected)

    def _path(self, args: dict[str, Any]) -> Path:
        """Where the call's path leads: relative to the project, ~ and symlinks followed."""
        named = str(args.get("path") or ".")
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
        # a write is not given up in its middle: the thread runs to its end
        return await asyncio.shield(asyncio.to_thread(self._file_tool, call, args))

    def _file_tool(self, call: Call, args: dict[str, Any]) -> Outcome:
        name, judged = call.name, self._judged.pop(call.id, None)
        try:
            # judged again: what the path led to may have changed since the person said yes
            facts = self._facts(args)
            if facts != judged:
                return Outcome(f"{args.get('path')} leads elsewhere now; try again", is_error=True)
            path = Path(facts.path)
            if name == "list":
                return list_directory(path, shown(path, self._host.root), self._host.protected)
            return _FILE_TOOLS[name](path, shown(path, self._host.root), args)
        except Unusable as unusable:
            return Outcome(str(unusable), is_error=True)
        except (OSError, RuntimeError, ValueError) as error:
            return Outcome(f"{name} failed: {error}", is_error=True)

    def _show(self, call_id: str, text: str) -> None:
        self._host.emit(ToolOutput(toolCallId=call_id, text=text))

    async def aclose(self) -> None:
        await self._commands.aclose()
        await self.servers.aclose()
