"""The pocket instance as one object: a loopback server with its devices, its API and its page."""

import asyncio
import errno
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from lembasd.device import milestones
from lembasd.instance.devices import Devices
from lembasd.instance.events import Events
from lembasd.instance.guard import Guard, Keys, refusal
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
    upstream_key: str | None = None
    data: Path | None = None
    approve: bool = False


class Instance:
    """A running instance: `async with Instance(options) as instance`."""

    def __init__(self, options: InstanceOptions) -> None:
        self._options = options
        self.port = 0
        self.secret = ""

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def page(self) -> str:
        """The page's address with the secret: whoever has it is the person."""
        return f"{self.base_url}/?secret={self.secret}"

    async def __aenter__(self) -> Self:
        """Raises UsageError when the port or the upstream cannot be used, ConfigError for a damaged data file."""
        options = self._options
        listener = _listen(options.port)
        try:
            self.port = listener.getsockname()[1]
            self.secret = secrets.token_urlsafe(32)
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
        milestones.reached("instance.listening", port=self.port)
        return self

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
        if self._upstream is not None:
            await self._upstream.close()

    def _app(self) -> ASGIApp:
        options = self._options
        files = _files(options.data)
        tokens = Tokens(files and files / "tokens.json")
        keys = Keys(self.secret, tokens, self.port)
        self._events = Events()
        self._devices = Devices(tokens, RowsFile(files and files / "sessions.json"), self._events)
        oauth = OAuth(self.base_url, tokens, approve=options.approve)

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
                *Models(keys, self._upstream).routes(),
                *LocalApi(self._devices, oauth, keys).routes(),
                *TerminalsApi(self._devices, keys).routes(),
                *Page(keys, demo=self._upstream is None).routes(),
                WebSocketRoute(LINK_PATH, link),
            ]
        )
        return Guard(app, self.port)


class _Server(uvicorn.Server):
    """A server that leaves signals to the program it runs in."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _files(data: Path | None) -> Path | None:
    if data is None:
        return None
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{data} cannot be used ({error.strerror}); give another --data"
        ) from error
    return data


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
