"""One connection to one server, from its start to its end, in a task of its own.

The SDK enters cancel scopes that must be left in the task that entered them; calls come from the tasks of their turns.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from lembasd import __version__
from lembasd.device.environment import MARKER
from lembasd.device.logging import logger
from lembasd.engine.native.core.mcp_results import text_of
from lembasd.engine.native.core.mcp_tools import Listed
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.mcp import sdk as sdk_module
from lembasd.engine.native.mcp.process import ServerProcess
from lembasd.engine.native.mcp.sdk import Sdk
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.harness.loader import LOOP
from lembasd.harness.tool import fill
from lembasd.protocol.mcp import McpServer

if TYPE_CHECKING:
    from mcp.client.client import Client

#: pages of one server's list of tools; one that never ends is cut off
MAX_PAGES: Final = 20
#: how often a server that says its tools have changed is asked for them; one that always says so is believed no more
MAX_RELISTS: Final = 10
#: seconds for a connection, and for each answer's next bytes, of a server that is asked over HTTP
HTTP_CONNECT_S: Final = 30.0
HTTP_READ_S: Final = 300.0
#: what saying goodbye to such a server may take
HTTP_END_S: Final = 2.0


class Place(Struct, frozen=True):
    """Where a session's servers are started."""

    root: Path
    environment: dict[str, str]


class Unavailable(Exception):
    """A server cannot be used; the text says why, without a full stop."""


class Connection:
    """`on_change`: the server's tools are others now. `on_end`: it is gone, and why; not told of a meant end."""

    def __init__(
        self,
        server: McpServer,
        place: Place,
        kept: Kept,
        on_change: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._server = server
        self._place = place
        self._kept = kept
        self._on_change = on_change
        self._on_end = on_end
        self._sdk: Sdk | None = None
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._watching: asyncio.Task[None] | None = None
        self._meant = False
        self._over = asyncio.Event()
        #: the server says that its tools have changed
        self._news = asyncio.Event()
        self._ready: asyncio.Future[list[Listed]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._live())

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def tools(self) -> list[Listed]:
        """The tools it listed when it started; waits for that. Raises Unavailable."""
        return await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        """End it, and with it its process; an end that came before stays one that was not meant."""
        self._meant = self._meant or not self.is_over
        self._over.set()
        if not self._ready.done():
            self._task.cancel()
        # a process is always seen to its end, which has bounds of its own
        bound = HTTP_END_S if self._process is None else None
        _, left = await asyncio.wait({self._task}, timeout=bound)
        if left:
            self._task.cancel()
            await asyncio.wait({self._task})

    # ── its life ────────────────────────────────────────────────────────────────────────────────

    async def _live(self) -> None:
        why = ""
        try:
            why = await self._connected()
        except asyncio.CancelledError:
            why = "it was ended as it started"
        except TimeoutError:
            why = f"it did not start within {LOOP.mcp.start_s:g} s"
        except (OSError, ValueError) as error:
            why = f"it cannot be started ({_says(error)})"
        except Exception as error:  # noqa: BLE001 - the SDK raises whatever its libraries do, in groups
            process = self._process
            has_ended = process is not None and self._over.is_set() and not self._meant
            why = (
                _end_of(process)
                if process is not None and has_ended
                else f"it failed ({_says(error)})"
            )
            logger().info("mcp_failed", server=self._server.name, error=type(error).__name__)
        finally:
            self._over.set()
            self._client = None
        if not self._ready.done():
            self._ready.set_exception(Unavailable(why))
            self._ready.exception()  # nobody may be waiting
        elif not self._meant:
            self._on_end(why)

    async def _connected(self) -> str:
        """Connect, and stay so until it is over; why it was."""
        self._sdk = sdk = await sdk_module.load()
        async with AsyncExitStack() as stack:
            transport = await self._transport(sdk, stack)
            async with asyncio.timeout(LOOP.mcp.start_s):
                client = await stack.enter_async_context(
                    sdk.Client(
                        transport,
                        cache=None,
                        message_handler=self._heard,
                        client_info=sdk.types.Implementation(name="lembasd", version=__version__),
                    )
                )
                listed = await self._list(client)
            self._client = client
            self._watching = asyncio.ensure_future(self._watch(client, listed))
            stack.push_async_callback(self._watch_no_more)
            self._ready.set_result(listed)
            await self._over.wait()
            self._client = None
        if self._process is None:
            return "its connection ended"
        return _end_of(self._process)

    async def _transport(self, sdk: Sdk, stack: AsyncExitStack) -> Any:
        server = self._server
        if server.transport == "stdio":
            place = self._place
            # by the marker its processes are found: nobody replaces it
            marker = {MARKER: place.environment[MARKER]}
            environment = {**place.environment, **server.env, **marker}
            process = await ServerProcess.start(server, place.root, environment, self._kept)
            self._process = process
            stack.push_async_callback(process.end)
            return process.transport(sdk, self._over)
        timeout = sdk.httpx.Timeout(HTTP_CONNECT_S, read=HTTP_READ_S)
        if server.transport == "sse":
            return sdk.sse_client(
                server.url,
                headers=server.headers,
                timeout=HTTP_CONNECT_S,
                sse_read_timeout=HTTP_READ_S,
            )
        client = sdk.httpx.AsyncClient(headers=server.headers, timeout=timeout)
        await stack.enter_async_context(client)
        return sdk.http_client(server.url, http_client=client)

    async def _list(self, client: "Client") -> list[Listed]:
        listed: list[Listed] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += [
                Listed(
                    server=self._server.name,
                    name=tool.name,
                    description=tool.description or "",
                    schema=tool.input_schema,
                    read_only=bool(tool.annotations and tool.annotations.read_only_hint),
                )
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                break
        return listed

    async def _watch(self, client: "Client", listed: list[Listed]) -> None:
        """Tell once that the tools are others now. Some servers say so when nothing has changed: they are asked."""
        listening = asyncio.ensure_future(self._listen(client))
        try:
            for _ in range(MAX_RELISTS):
                await self._news.wait()
                self._news.clear()
                async with asyncio.timeout(LOOP.mcp.start_s):
                    now = await self._list(client)
                if now != listed:
                    self._on_change()
                    return
        except Exception as error:  # noqa: BLE001 - what it lists now cannot be read: that is told by no one else
            logger().info("mcp_list_unread", server=self._server.name, error=type(error).__name__)
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def _listen(self, client: "Client") -> None:
        """Have changes told: the new protocol has to be asked for it, where the old one just tells."""
        capability = client.server_capabilities.tools
        if capability is None or not capability.list_changed:
            return
        # an old server, or one that does not tell after all: its tools stand as they are
        with suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._news.set()

    async def _watch_no_more(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})

    async def _heard(self, message: Any) -> None:
        sdk = self._sdk
        if sdk is not None and isinstance(message, sdk.types.ToolListChangedNotification):
            self._news.set()

    # ── calls ───────────────────────────────────────────────────────────────────────────────────

    async def call(self, tool: str, args: dict[str, Any], meta: dict[str, Any]) -> Outcome:
        """Call a tool; `meta` goes beside its arguments. Cancelling tells the server. Raises Unavailable where it is over before that."""
        sdk, client = self._sdk, self._client
        if sdk is None or client is None:
            raise Unavailable("it ended")
        texts, values = LOOP.mcp.texts, {"server": self._server.name}
        request = sdk.types.CallToolRequest(
            params=sdk.types.CallToolRequestParams(name=tool, arguments=args, _meta=meta or None)
        )
        try:
            async with asyncio.timeout(self._server.timeout_s):
                # not Client.call_tool: it checks the answer against the server's own schema, in the loop
                result = await client.session.send_request(request, sdk.types.CallToolResult)
        except TimeoutError:
            seconds = f"{self._server.timeout_s:g}"
            return Outcome(fill(texts["timeout"], {**values, "seconds": seconds}), is_error=True)
        except sdk.MCPError as error:
            if error.code == sdk.types.CONNECTION_CLOSED or self.is_over:
                return Outcome(fill(texts["ended"], values), is_error=True)
            return Outcome(f"{self._server.name} refused the call: {error.message}", is_error=True)
        except Exception as error:  # noqa: BLE001 - what a server answers may break the SDK in any way
            logger().info("mcp_answer_unread", server=self._server.name, error=type(error).__name__)
            return Outcome(fill(texts["unread"], values), is_error=True)
        content = [one.model_dump(by_alias=True, mode="json") for one in result.content]
        return Outcome(text_of(content, result.structured_content), is_error=result.is_error)


def _end_of(process: ServerProcess) -> str:
    return f"{process.why} (exit status {process.status})"


def _says(error: BaseException) -> str:
    """What went wrong in a few words, without what a library quotes of the exchange."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"HTTP {status}" if status is not None else type(error).__name__
