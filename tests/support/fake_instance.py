"""A scripted instance for tests whose subject is the device: discovery, device login, the HTTP API, the link.

It does what its attributes say at the moment of each request, so that a test can be refused, left alone or answered
with garbage. It listens on a free port of loopback, with TLS when it is given a context.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs

import msgspec
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

TOKEN: Final = "token-of-a-test"
#: what a loaded two-core machine needs for anything here
WAIT_S: Final = 10.0
_HEAD_BYTES: Final = 65_536


@dataclass
class Seen:
    """One HTTP request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    head: bytes = b""

    @property
    def form(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(self.body.decode()).items()}


@dataclass
class Answer:
    """An HTTP answer."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200) -> Self:
        return cls(status, msgspec.json.encode(value), {"Content-Type": "application/json"})

    def encode(self) -> bytes:
        """The bytes of it; headers given here replace the usual ones."""
        lines = {"Content-Length": str(len(self.body)), "Connection": "close", **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n{head}\r\n".encode() + (
            self.body
        )


class Device:
    """The server's side of one link."""

    def __init__(
        self, ws: ServerProtocol, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._ws = ws
        self._reader = reader
        self._writer = writer
        self._fragments = b""
        #: None after the last one
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        #: WebSocket frames that came, control frames too
        self.frames: list[Frame] = []
        #: set while this side reads what comes; cleared, the device's socket fills up
        self.reads = asyncio.Event()
        self.reads.set()
        #: false: nothing is answered any more, not even a ping
        self.answers = True
        self.closed = asyncio.Event()
        #: code and reason of the device's close frame
        self.close_code: int | None = None
        self.close_reason = ""

    async def message(self) -> bytes:
        """The next message of the device's."""
        async with asyncio.timeout(WAIT_S):
            message = await self._messages.get()
        assert message is not None, "the connection has ended"
        return message

    async def messages(self) -> AsyncIterator[bytes]:
        """Every message from now on, to the end of the connection."""
        while (message := await self._messages.get()) is not None:
            yield message

    async def until_closed(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.closed.wait()

    def send(self, text: bytes, *, fragments: int = 1) -> None:
        """Send one message, in so many frames; one that meets the end of the connection is lost with it."""
        if self._ws.state is not State.OPEN:
            return
        size = -(-len(text) // fragments) or 1
        parts = [text[at : at + size] for at in range(0, len(text), size)] or [b""]
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            if number == 0:
                self._ws.send_text(part, fin=last)
            else:
                self._ws.send_continuation(part, fin=last)
        self._write()

    def send_binary(self, data: bytes) -> None:
        self._ws.send_binary(data)
        self._write()

    def send_raw(self, data: bytes) -> None:
        """Bytes that need be no frame."""
        self._writer.write(data)

    def ping(self, data: bytes = b"") -> None:
        self._ws.send_ping(data)
        self._write()

    def close(self, code: int, reason: str = "") -> None:
        self._ws.send_close(code, reason)
        self._write()

    def drop(self) -> None:
        """End the connection as a network does: without a word."""
        self._writer.transport.abort()

    def send_pending(self) -> None:
        """Send what the protocol has to say by itself: the handshake's answer, when no frame took it along."""
        self._write()

    def _write(self) -> None:
        parts = self._ws.data_to_send()
        if self._writer.is_closing():
            return
        # in one write: what leaves together arrives together
        self._writer.write(b"".join(parts))
        if b"" in parts:
            self._writer.close()

    async def serve(self) -> None:
        """Read until the connection ends."""
        try:
            while data := await self._read():
                self._ws.receive_data(data)
                self._take()
        finally:
            self.closed.set()
            self._messages.put_nowait(None)

    async def _read(self) -> bytes:
        await self.reads.wait()
        with suppress(ConnectionError):
            return await self._reader.read(1 << 18)
        return b""

    def _take(self) -> None:
        for frame in self._ws.events_received():
            if not isinstance(frame, Frame):
                continue
            self.frames.append(frame)
            if frame.opcode is Opcode.CLOSE and self._ws.close_rcvd is not None:
                self.close_code = self._ws.close_rcvd.code
                self.close_reason = self._ws.close_rcvd.reason
            if frame.opcode in (Opcode.TEXT, Opcode.CONT):
                self._fragments += bytes(frame.data)
                if frame.fin:
                    self._messages.put_nowait(self._fragments)
                    self._fragments = b""
        if self.answers:
            self._write()
        else:
            self._ws.data_to_send()


class FakeInstance:
    """`async with FakeInstance() as instance`: its address is `instance.url`."""

    def __init__(self, *, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        #: the discovery document beside its endpoints; None: 404
        self.discovery: dict[str, Any] | None = {
            "name": "Fake",
            "version": "2.0.1",
            "protocol": 3,
            "protocols": [3],
        }
        #: tokens that are accepted
        self.tokens = {TOKEN}
        #: what `/api/v1/instance` says; None: 404
        self.about: dict[str, Any] | None = {
            "service": "lembas",
            "version": "2.0.1",
            "name": "Fake",
            "connection": "fake",
            "account": {"email": "ada@example.org", "name": "Ada"},
            "scope": "models memory link",
            "default_model": "demo",
        }
        #: entries of `/v1/models`, and what `/v1/usage` and `/v1/me/personalization` say; None: 404
        self.models: list[Any] | None = [{"id": "demo", "kind": "chat"}]
        self.usage: Any = None
        self.personalization: Any = None
        #: what the device grant's token endpoint says, one after the other; the last one stays
        self.grants: list[Answer] = [Answer.of({"access_token": TOKEN, "token_type": "Bearer"})]
        self.grant_fields: dict[str, Any] = {"interval": 0.1, "expires_in": 60}
        #: the port of a model that is asked for completions; None: 404
        self.model_port: int | None = None
        #: an answer that takes the place of the usual one, by path
        self.instead: dict[str, Answer | bytes] = {}
        #: paths that are read and never answered
        self.mute: set[str] = set()
        #: called with each device before anything is read from it; its frames leave with the handshake
        self.greet: Callable[[Device], None] = lambda _: None
        self.requests: list[Seen] = []
        self.devices: list[Device] = []
        self._arrived: asyncio.Queue[Device] = asyncio.Queue()
        self._asked = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://localhost:{self._port}"

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.go_away()

    async def come_back(self) -> None:
        """Listen (again, on the same port)."""
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self._port, ssl=self._context, limit=_HEAD_BYTES
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def go_away(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def device(self) -> Device:
        """The next device that links."""
        async with asyncio.timeout(WAIT_S):
            return await self._arrived.get()

    async def asked(self, path: str, times: int = 1) -> Seen:
        """Wait until `path` was asked for this many times in all; the last of these requests."""
        async with asyncio.timeout(WAIT_S), self._asked:
            while True:
                found = [one for one in self.requests if one.path == path]
                if len(found) >= times:
                    return found[times - 1]
                await self._asked.wait()

    def asked_so_far(self, path: str) -> int:
        return sum(one.path == path for one in self.requests)

    # ── HTTP ────────────────────────────────────────────────────────────────────────────────────

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # cancelled: the instance goes away
            with suppress(
                ConnectionError,
                asyncio.IncompleteReadError,
                ssl.SSLError,
                asyncio.CancelledError,
            ):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in lines[1:] if line)
        headers = {name.lower(): value.strip() for name, value in pairs}
        seen = Seen(method, path, headers, head=head)
        seen.body = await reader.readexactly(int(seen.headers.get("content-length", 0)))
        self.requests.append(seen)
        async with self._asked:
            self._asked.notify_all()
        if path in self.mute:
            await reader.read()
            return
        if path == "/v1/chat/completions" and self.model_port is not None:
            await self._relay(seen, self.model_port, writer)
            return
        instead = self.instead.get(path)
        if instead is None and path == "/api/devices/link" and self._is_ours(seen):
            await self._link(seen, reader, writer)
            return
        answer = instead if instead is not None else self._answer(seen)
        writer.write(answer if isinstance(answer, bytes) else answer.encode())
        await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _relay(self, seen: Seen, port: int, writer: asyncio.StreamWriter) -> None:
        reader, upstream = await asyncio.open_connection("127.0.0.1", port)
        try:
            upstream.write(seen.head + seen.body)
            while (data := await reader.read(1 << 16)) and not writer.is_closing():
                writer.write(data)
                await writer.drain()
        finally:
            upstream.close()
            writer.close()

    def _is_ours(self, seen: Seen) -> bool:
        scheme, _, token = seen.headers.get("authorization", "").partition(" ")
        return scheme == "Bearer" and token in self.tokens

    def _answer(self, seen: Seen) -> Answer:
        match seen.method, seen.path:
            case "GET", "/.well-known/lembas.json":
                return self._discover()
            case "POST", "/oauth/device":
                return Answer.of(
                    {
                        "device_code": "device-code",
                        "user_code": "ABCD-EFGH",
                        "verification_uri": f"{self.url}/device",
                        **self.grant_fields,
                    }
                )
            case "POST", "/oauth/token":
                return self.grants.pop(0) if len(self.grants) > 1 else self.grants[0]
            case "GET", "/api/v1/instance":
                if not self._is_ours(seen):
                    return Answer(401)
                return Answer(404) if self.about is None else Answer.of(self.about)
            case "GET", "/api/devices/link":
                return Answer(401)
            case "GET", "/v1/models":
                listed = {"object": "list", "data": self.models}
                return self._own(seen, None if self.models is None else listed)
            case "GET", "/v1/usage":
                return self._own(seen, self.usage)
            case "GET" | "PUT", "/v1/me/personalization":
                return self._own(seen, self.personalization)
        return Answer(404)

    def _own(self, seen: Seen, said: Any) -> Answer:
        """What only a device's token opens."""
        if not self._is_ours(seen):
            return Answer(401)
        return Answer(404) if said is None else Answer.of(said)

    def _discover(self) -> Answer:
        if self.discovery is None:
            return Answer(404)
        endpoints = {
            "device_authorization_endpoint": f"{self.url}/oauth/device",
            "token_endpoint": f"{self.url}/oauth/token",
        }
        return Answer.of({**endpoints, **self.discovery})

    # ── the link ────────────────────────────────────────────────────────────────────────────────

    async def _link(
        self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ws = ServerProtocol(max_size=None)
        ws.receive_data(seen.head)
        (request,) = ws.events_received()
        assert isinstance(request, Request)
        ws.send_response(ws.accept(request))
        device = Device(ws, reader, writer)
        self.greet(device)
        device.send_pending()
        self.devices.append(device)
        self._arrived.put_nowait(device)
        await device.serve()
