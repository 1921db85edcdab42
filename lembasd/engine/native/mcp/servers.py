"""A session's MCP servers: started before its first request, asked by calls, started again when one has ended.

The tools that a model is offered are fixed once, and recorded. When the session is opened again they stand as they
are, and a server starts with the first call to one of its tools.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from lembasd.device import environment, process_tree
from lembasd.device.limits import is_trusted
from lembasd.engine.api import Host
from lembasd.engine.native.core.call_titles import one_line
from lembasd.engine.native.core.mcp_sources import PROJECT_FILE, expanded, is_instances, merged
from lembasd.engine.native.core.mcp_tools import Listed, as_tool, offered
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.mcp import project
from lembasd.engine.native.mcp.connection import Connection, Place, Unavailable
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.harness.loader import LOOP
from lembasd.harness.tool import Tool, fill
from lembasd.protocol import events
from lembasd.protocol.mcp import McpServer
from lembasd.store.apart import run_apart
from lembasd.store.records import Call, OfferedTool

#: a project's file that is not read by then is on a disk that hangs
PROJECT_FILE_S: Final = 5.0


class Servers:
    """The servers of one session and the tools of theirs that its model knows.

    `person` gives the environment of a person's login shell, in which servers are found and run.
    """

    def __init__(
        self,
        host: Host,
        epoch: int,
        kept: Kept,
        person: Callable[[], Awaitable[dict[str, str]]],
    ) -> None:
        self._host = host
        self._person = person
        self._epoch = epoch
        self._kept = kept
        self._offered: dict[str, OfferedTool] = {}
        self._servers: dict[str, _Server] | None = None
        self._reading = asyncio.Lock()
        self._closed = False
        #: by name, as the harness writes tools down
        self.tools: Mapping[str, Tool] = {}

    def take(self, tools: list[OfferedTool]) -> None:
        """The tools of this session, as they were recorded."""
        self._offered = {one.name: one for one in tools}
        self.tools = {one.name: as_tool(one) for one in tools}

    async def fix(self) -> list[OfferedTool] | None:
        """Start every server and list what to offer; None where the session has none.

        Takes at most the bound of a server's start. What cannot be used is told to the person.
        """
        servers = await self._found()
        if not servers:
            return None
        self._host.emit(events.Flash(text=f"starting MCP servers: {', '.join(servers)}"))
        listed = await asyncio.gather(*(self._listed(one) for one in servers.values()))
        trusted = frozenset(name for name, one in servers.items() if one.server.trust_read_only)
        tools, more = offered([one for some in listed for one in some], trusted)
        if more:
            self._tell(f"{more} tools of MCP servers are left out: a session can have no more")
        return tools

    async def _listed(self, server: "_Server") -> list[Listed]:
        try:
            return await (await server.connection()).tools()
        except Unavailable as why:
            self._tell(f"the MCP server {server.server.name} cannot be used: {why}")
            return []

    def title(self, call: Call) -> str:
        """What a call is shown as."""
        known = self._offered[call.name]
        args = msgspec.json.encode(call.args or {}).decode()
        return one_line(f"{known.server}: {known.tool} {args}")

    async def run(
        self, call: Call, args: dict[str, object], started: Callable[[], None]
    ) -> Outcome:
        """Make a call that was judged; its server is started first where it does not run."""
        known = self._offered[call.name]
        server = (await self._found()).get(known.server)
        try:
            if server is None:
                raise Unavailable("it is not in the configuration of this session any more")
            connection = await server.connection()
            await connection.tools()
            started()
            return await connection.call(known.tool, args, self._meta(server.server))
        except Unavailable as why:
            values = {"server": known.server, "why": str(why)}
            return Outcome(fill(LOOP.mcp.texts["unavailable"], values), is_error=True)

    def _meta(self, server: McpServer) -> dict[str, Any]:
        """What a call says beside its arguments: to the instance's own server, for which of its chats it is made."""
        account, scope = self._host.settings.account, self._host.scope
        if account is None or scope is None or not is_instances(server.url, account.base_url):
            return {}
        return {"lembas": {"scope": scope}}

    async def aclose(self) -> None:
        """End every server, and what they left behind."""
        servers = list((self._servers or {}).values())
        # a server that ended by itself just now is still told of
        await asyncio.gather(*(one.aclose() for one in servers))
        self._closed = True
        if any(one.starts for one in servers):
            marked = await asyncio.to_thread(
                process_tree.by_marker, self._host.session_id, self._epoch
            )
            await process_tree.end_tree([one.pid for one in marked])

    # ── which there are ─────────────────────────────────────────────────────────────────────────

    async def _found(self) -> "dict[str, _Server]":
        """The session's servers, looked up once in the worker's life."""
        async with self._reading:
            if self._servers is None:
                self._servers = await self._look_up()
            return self._servers

    async def _look_up(self) -> "dict[str, _Server]":
        host = self._host
        servers = merged(await self._of_project(), host.settings.mcp, host.client_servers)
        if not servers:
            return {}
        known = environment.for_tools(await self._person(), host.session_id, self._epoch)
        place = Place(root=host.root, environment=known)
        found: dict[str, _Server] = {}
        for server in servers:
            try:
                # a client says what it means; only files are written with variables
                is_clients = server in host.client_servers
                filled = server if is_clients else expanded(server, known)
            except KeyError as unset:
                name = unset.args[0]
                self._tell(
                    f"the MCP server {server.name} is not started: {name} is not set; set it"
                )
            else:
                found[server.name] = _Server(filled, place, self._kept, self._tell)
        return found

    async def _of_project(self) -> list[McpServer]:
        host = self._host
        try:
            async with asyncio.timeout(PROJECT_FILE_S):
                found = await run_apart(lambda: project.find(host.root))
        except TimeoutError:
            return []  # the disk hangs: the tools will say so
        if found is None:
            return []
        if not is_trusted(host.root, host.settings.trusted):
            self._tell(
                f"{PROJECT_FILE} of this project is not used, for the project is not trusted; "
                "trust it with `lembas trust add`, then open a new session"
            )
            return []
        for problem in found.problems:
            self._tell(problem)
        return found.servers

    def _tell(self, text: str) -> None:
        if not self._closed:
            self._host.emit(events.Notice(level="warning", text=text))


class _Server:
    """One server, and the connection that it has now."""

    def __init__(
        self, server: McpServer, place: Place, kept: Kept, tell: Callable[[str], None]
    ) -> None:
        self.server = server
        self.starts = 0
        self._place = place
        self._kept = kept
        self._tell = tell
        self._why = ""
        self._connection: Connection | None = None
        #: every one that there was: those that are over may still be ending their process
        self._connections: list[Connection] = []

    async def connection(self) -> Connection:
        """The connection that there is, or a new one; it may not be ready yet. Raises Unavailable."""
        current = self._connection
        if current is not None and not current.is_over:
            return current
        if self.starts > LOOP.mcp.restarts:
            raise Unavailable(f"it was started {self.starts} times and ended each time")
        self.starts += 1
        self._connection = Connection(
            self.server, self._place, self._kept, self._changed, self._ended
        )
        self._connections.append(self._connection)
        return self._connection

    def _changed(self) -> None:
        self._tell(
            f"the MCP server {self.server.name} has other tools now; a new session will have them"
        )

    def _ended(self, why: str) -> None:
        self._tell(f"the MCP server {self.server.name} has ended: {why}")

    async def aclose(self) -> None:
        await asyncio.gather(*(one.aclose() for one in self._connections))
