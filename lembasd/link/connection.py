"""One WebSocket of the link: websockets' Sans-I/O client in our own asyncio.Protocol.

Messages that are sent in one turn of the loop leave in one write. A peer that is mute, though its socket is open,
is given up after a ping without an answer.
"""

import asyncio
import ssl
from collections import deque
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from lembasd.link.discovery import Unreachable, retry_after
from lembasd.protocol.errors import LembasError
from lembasd.protocol.limits import KIB, MAX_MESSAGE_BYTES

LINK_PATH: Final = "/api/devices/link"
#: messages in one write; the next ones wait for the next turn of the loop
MAX_BATCH: Final = 64
#: the transport's own buffer: small, so that what is urgent is soon next
WRITE_HIGH_BYTES: Final = 128 * KIB
WRITE_LOW_BYTES: Final = 32 * KIB
#: a ping this often, and an answer (or anything else) to it within this time, or the link is dead
PING_INTERVAL_S: Final = 20.0
PONG_TIMEOUT_S: Final = 20.0
#: the handshake, and the other side's part of a close
OPEN_TIMEOUT_S: Final = 15.0
CLOSE_TIMEOUT_S: Final = 5.0
#: RFC 6455, 7.4.1: "no status received" and "abnormal closure"
ABNORMAL: Final = 1006


class TokenRefused(LembasError):
    """401 or 403 on the upgrade."""


class ConnectionHandler(Protocol):
    """What happens on an open connection. Called from the loop; must not block and must not raise."""

    def link_message(self, connection: "LinkConnection", text: bytes) -> None:
        """One whole message."""

    def link_writable(self, connection: "LinkConnection") -> None:
        """What was queued has gone to the socket."""

    def connection_closed(self, connection: "LinkConnection", code: int, reason: str) -> None:
        """The connection is gone; called once, only after it was open."""


class LinkConnection(asyncio.Protocol):
    """One WebSocket, made by `open_connection`."""

    def __init__(self, handler: ConnectionHandler, url: str, token: str) -> None:
        self._handler = handler
        self._ws = ClientProtocol(parse_uri(url), max_size=MAX_MESSAGE_BYTES)
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._flushing = False
        self._fragments: list[bytes] = []
        self._ping_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._heard = True
        self._why = ""
        self.opened: asyncio.Future[None] = self._loop.create_future()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        request = self._ws.connect()
        request.headers["Authorization"] = f"Bearer {self._token}"
        self._token = ""
        self._ws.send_request(request)
        self._write_out()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._ws.receive_data(data)
        self._after_receiving()

    def eof_received(self) -> bool:
        self._ws.receive_eof()
        self._after_receiving()
        return False

    def _after_receiving(self) -> None:
        for event in self._ws.events_received():
            if isinstance(event, Response):
                self._handshaken()
            elif isinstance(event, Frame):
                self._take(event)
        if self._ws.handshake_exc is not None:
            self._refused(self._ws.handshake_exc)
        self._write_out()
        if self._ws.state is not State.OPEN and self._ws.close_expected():
            self._expect_close()

    def _handshaken(self) -> None:
        if self._ws.state is State.OPEN and not self.opened.done():
            self._ping_timer = self._loop.call_later(PING_INTERVAL_S, self._ping)
            self.opened.set_result(None)

    def _refused(self, error: Exception) -> None:
        if self.opened.done():
            return
        self.opened.set_exception(_handshake_error(error))
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is Opcode.BINARY:
            self.close(1003, "messages are text")
            return
        if frame.fin and not self._fragments:
            self._handler.link_message(self, bytes(frame.data))
            return
        self._fragments.append(bytes(frame.data))
        if frame.fin:
            text = b"".join(self._fragments)
            self._fragments.clear()
            self._handler.link_message(self, text)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._ping_timer, self._close_timer):
            if timer is not None:
                timer.cancel()
        self._transport = None
        self._queue.clear()
        self._queue_bytes = 0
        if not self.opened.done():
            self.opened.set_exception(Unreachable("the instance closed the connection at once"))
            return
        if self.opened.cancelled() or self.opened.exception() is not None:
            return
        received = self._ws.close_rcvd
        if received is not None:
            code, reason = received.code, received.reason
        else:
            code, reason = ABNORMAL, ""
        what = self._why or reason or (str(exc) if exc else "") or "the instance closed the link"
        self._handler.connection_closed(self, code, what)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────

    @property
    def queued_bytes(self) -> int:
        """Bytes sent that the kernel has not taken."""
        transport = self._transport
        held = transport.get_write_buffer_size() if transport is not None else 0
        return self._queue_bytes + held

    def send(self, payload: bytes) -> None:
        """Send one message of UTF-8 text. Does nothing on a connection that is closing."""
        if self._transport is None or self._ws.state is not State.OPEN:
            return
        if self._flushing or self._paused or self._queue:
            self._queue.append(payload)
            self._queue_bytes += len(payload)
            return
        # the first of a turn goes at once; what follows in the same turn goes together
        self._ws.send_text(payload)
        self._write_out()
        self._flushing = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._queue and not self._paused and self._ws.state is State.OPEN:
            for _ in range(min(MAX_BATCH, len(self._queue))):
                payload = self._queue.popleft()
                self._queue_bytes -= len(payload)
                self._ws.send_text(payload)
            self._write_out()
        if not self._queue and not self._paused and self._transport is not None:
            self._handler.link_writable(self)

    def _write_out(self) -> None:
        # an empty part is websockets' word for "half-close", which TLS has not: the close time-out does it
        data = b"".join(self._ws.data_to_send())
        if data and self._transport is not None:
            self._transport.write(data)

    def _ping(self) -> None:
        if self._ws.state is not State.OPEN:
            return
        self._heard = False
        self._ws.send_ping(b"")
        self._write_out()
        self._ping_timer = self._loop.call_later(PONG_TIMEOUT_S, self._pong_due)

    def _pong_due(self) -> None:
        if not self._heard:
            self.abort(f"the instance did not answer a ping within {PONG_TIMEOUT_S:g} s")
            return
        self._ping_timer = self._loop.call_later(PING_INTERVAL_S, self._ping)

    # ── closing ─────────────────────────────────────────────────────────────────────────────────

    def close(self, code: int, reason: str) -> None:
        """Close after what was sent; the other side has 5 s to do its part."""
        if self._transport is None or self._ws.state is not State.OPEN:
            return
        self._why = reason
        while self._queue:
            self._ws.send_text(self._queue.popleft())
        self._queue_bytes = 0
        self._ws.send_close(code, reason)
        self._write_out()
        self._expect_close()

    def _expect_close(self) -> None:
        if self._close_timer is None:
            self._close_timer = self._loop.call_later(CLOSE_TIMEOUT_S, self.abort, "")

    def abort(self, reason: str) -> None:
        """End it now, whatever is unsent."""
        if self._transport is not None:
            self._why = self._why or reason
            self._transport.abort()


def _handshake_error(error: Exception) -> LembasError:
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        if status in (401, 403):
            return TokenRefused(
                "the instance does not accept this device any more; log in again with `lembas login`"
            )
        return Unreachable(
            f"the instance answers {status} to the link", retry_after(error.response.headers)
        )
    return Unreachable(f"the instance does not answer as one ({error})")


def websocket_url(server: str) -> str:
    """The link's address at a server's base URL."""
    scheme, rest = server.split(":", 1)
    return f"{'wss' if scheme == 'https' else 'ws'}:{rest}{LINK_PATH}"


async def open_connection(
    handler: ConnectionHandler, server: str, token: str, context: ssl.SSLContext | None
) -> LinkConnection:
    """Open the link's WebSocket at a server's base URL.

    Raises Unreachable when the instance is away or answers as none, TokenRefused on 401 and 403.
    """
    loop = asyncio.get_running_loop()
    parts = urlsplit(server)
    port = parts.port or (443 if context is not None else 80)
    connection = LinkConnection(handler, websocket_url(server), token)
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await loop.create_connection(
                lambda: connection, parts.hostname or "", port, ssl=context
            )
            await connection.opened
    except TimeoutError:
        connection.abort("")
        raise Unreachable("the instance does not answer; check the network") from None
    except OSError as error:
        raise Unreachable(f"the instance cannot be reached ({error}); check the network") from error
    except asyncio.CancelledError:
        connection.abort("")
        raise
    return connection
