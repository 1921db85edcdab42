"""The pocket instance as one object: a loopback server with its devices, its API and its page."""

import asyncio
import errno
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from lembasd.device import milestones
from lembasd.instance.account_api import AccountApi
from lembasd.instance.data_dir import DataDir
from lembasd.instance.deleting import Deleting
from lembasd.instance.devices import Devices
from lembasd.instance.events import Events
from lembasd.instance.guard import Guard, Keys, refusal
from lembasd.instance.live_terminals import LiveTerminals
from lembasd.instance.local_api import LocalApi
from lembasd.instance.models import Models
from lembasd.instance.oauth import OAuth
from lembasd.instance.page_routes import Page
from lembasd.instance.rows_file import RowsFile
from lembasd.instance.terminals_api import TerminalsApi
from lembasd.instance.tokens import Tokens
from lembasd.instance.upstream import Upstream
from lembasd.protocol.errors import UsageError
from lembasd.protocol.limits import MAX_MESSAGE_BYTES

HOST: Final = "127.0.0.1"
LINK_PATH: Final = "/api/devices/link"
#: how long requests under way may take when the instance ends; then they are cut
STOP_TIMEOUT_S: Final = 2
#: messages of one WebSocket that wait to be read; then its device waits
MAX_WEBSOCKET_QUEUE: Final = 32


@dataclass(frozen=True)
class InstanceOptions:
    """`port` 0 stands for any free one; `data` None keeps logins and sessions in memory alone."""

    port: int = 0
    upstream: str | None = None
    upstream_key: str | None = field(default=None, repr=False)
    data: Path | None = None
    approve: bool = False


@dataclass(frozen=True)
class Address:
    """Where an instance listens. Whoever has `page` is the person."""

    port: int
    secret: str = field(repr=False)

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def page(self) -> str:
        return f"{self.base_url}/?secret={self.secret}"


async def serve(
    options: InstanceOptions, on_ready: Callable[["Instance"], Awaitable[None]] | None = None
) -> None:
    """Run an instance until this is cancelled; `on_ready` is awaited once it takes requests. Raises as Instance does."""
    async with Instance(options) as running:
        if on_ready is not None:
            await on_ready(running)
        await running.ended()


class Instance:
    """A running instance: `async with Instance(options) as instance`."""

    def __init__(self, options: InstanceOptions) -> None:
        self._options = options
        self.address = Address(0, "")

    @property
    def base_url(self) -> str:
        return self.address.base_url

    @property
    def port(self) -> int:
        return self.address.port

    @property
    def secret(self) -> str:
        return self.address.secret

    @property
    def page(self) -> str:
        """The page's address with the secret."""
        return self.address.page

    async def upstream_models(self) -> list[str] | None:
        """The models of the upstream; None when it does not answer, or there is none."""
        return await self._upstream.models() if self._upstream is not None else None

    async def ended(self) -> None:
        """Wait until its server has ended, which nothing but a fault brings about before `async with` is left."""
        await asyncio.shield(self._serving)

    async def __aenter__(self) -> Self:
        """Raises UsageError when the port or the upstream cannot be used, ConfigError for a damaged data file."""
        options = self._options
        self._data = DataDir(options.data) if options.data is not None else None
        try:
            self._start(_listen(options.port))
        except BaseException:
            self._release()
            raise
        milestones.reached("instance.listening", port=self.address.port)
        return self

    def _start(self, listener: socket.socket) -> None:
        options = self._options
        try:
            self.address = Address(listener.getsockname()[1], secrets.token_urlsafe(32))
            self._upstream = (
                Upstream(options.upstream, options.upstream_key) if options.upstream else None
            )
            app = self._app()
        except BaseException:
            listener.close()
            raise
        config = uvicorn.Config(
            app,
            http="h11",
            ws="websockets-sansio",
            ws_max_size=MAX_MESSAGE_BYTES,
            ws_max_queue=MAX_WEBSOCKET_QUEUE,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))

    def _release(self) -> None:
        if self._data is not None:
            self._data.release()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.close()
        await self._devices.close()
        self._server.should_exit = True
        await self._serving
        await self._account.saved()
        if self._upstream is not None:
            await self._upstream.close()
        self._release()

    def _app(self) -> ASGIApp:
        data = self._data
        tokens = Tokens(data.tokens if data else None)
        port = self.address.port
        keys = Keys(self.address.secret, tokens, port)
        # milliseconds: no life of this instance brings forth events faster
        self._events = Events(last=time.time_ns() // 1_000_000)
        rows = RowsFile(data.sessions if data else None)
        deleting = Deleting(data.deletions if data else None, self._events)
        self._devices = Devices(
            tokens, rows, deleting, self._events, data.terminals if data else None
        )
        self._account = AccountApi(keys, data.use if data else None, data.account if data else None)
        models = Models(keys, self._upstream, self._account.took)
        oauth = OAuth(self.address.base_url, tokens, approve=self._options.approve)

        async def link(socket: WebSocket) -> None:
            device = keys.device(socket)
            if device is None or not device.may("link"):
                answer = refusal(401, "this needs a device's token; run `lembas login`")
                await socket.send_denial_response(answer)
                return
            await self._devices.serve(socket, device)

        app = Starlette(
            routes=[
                *oauth.routes(),
                *models.routes(),
                *self._account.routes(),
                *LocalApi(self._devices, oauth, keys, models).routes(),
                *TerminalsApi(self._devices, keys).routes(),
                *LiveTerminals(self._devices, keys).routes(),
                *Page(keys, demo=self._upstream is None).routes(),
                WebSocketRoute(LINK_PATH, link),
            ]
        )
        return Guard(app, port)


def _is_news(record: logging.LogRecord) -> bool:
    """uvicorn's own complaint about a WebSocket that was answered with a refusal, as ASGI allows, is none."""
    return "without completing handshake" not in record.getMessage()


logging.getLogger("uvicorn.error").addFilter(_is_news)


class _Server(uvicorn.Server):
    """A server that leaves signals to the program it runs in."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is taken; give another --port, or 0 for any") from error
        raise UsageError(f"port {port} cannot be used ({error.strerror}); give another") from error
    return listener
