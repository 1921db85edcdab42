"""One WebSocket of the link: websockets' Sans-I/O client in our own asyncio.Protocol.

Messages that are sent in one turn of the loop leave in one write; a long one leaves in fragments, so that the answer
to a ping never waits behind all of it. A peer that is mute, though its socket is open, is given up after a ping without
an answer.
"""

import asyncio
import logging
import os
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, assert_never, cast
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without the compiled part
    from websockets.utils import apply_mask

from lembasd.link.clocks import slept_s
from lembasd.link.core import liveness
from lembasd.link.core.faults import plain
from lembasd.link.discovery import Unreachable, retry_after
from lembasd.protocol.errors import LembasError
from lembasd.protocol.limits import KIB, MAX_MESSAGE_BYTES

LINK_PATH: Final = "/api/devices/link"
#: messages in one write; the next ones wait for the next turn of the loop
MAX_BATCH: Final = 64
#: the transport's own buffer: small, so that what is urgent is soon next
WRITE_HIGH_BYTES: Final = 128 * KIB
#: bytes that the kernel may hold unsent; by itself it takes megabytes, and a key to interrupt a flood waits behind them
UNSENT_BYTES: Final = 128 * KIB
#: Python has no name for it everywhere
_NOTSENT_LOWAT: Final = {"darwin": 0x201}
WRITE_LOW_BYTES: Final = 32 * KIB
#: a longer message leaves in fragments of this size
FRAGMENT_BYTES: Final = 128 * KIB
#: the handshake, and the other side's part of a close
OPEN_TIMEOUT_S: Final = 15.0
CLOSE_TIMEOUT_S: Final = 5.0
#: RFC 6455, 7.4.1: "going away" is a normal close of ours, "abnormal closure" a connection that was lost
ABNORMAL: Final = 1006
UNSUPPORTED: Final = 1003
#: RFC 6455, 5.5: what a close frame's text may hold
MAX_REASON_BYTES: Final = 123
#: websockets would log a handshake's headers, the token among them, where debug is on for it
_SILENT: Final = logging.getLogger("lembasd.link.websocket")
_SILENT.setLevel(logging.CRITICAL + 1)


def text_frame(payload: bytes, mask: bytes) -> bytes:
    """A whole text message as a client's frame (RFC 6455, 5.2). `mask`: four random bytes.

    The library's own way makes four objects for each frame, half of what routing a short message costs the hub.
    """
    size = len(payload)
    if size < 126:
        head = bytes((0x81, 0x80 | size))
    elif size < 0x10000:
        head = b"\x81\xfe" + size.to_bytes(2, "big")
    else:
        head = b"\x81\xff" + size.to_bytes(8, "big")
    return head + mask + apply_mask(payload, mask)


_STOPPED: Final = "see that nothing between here and there stops a WebSocket"


class TokenRefused(LembasError):
    """401 or 403 on the upgrade."""


class ConnectionHandler(Protocol):
    """What happens on an open connection. Called from the loop; must not block and must not raise."""

    def connection_opened(self, connection: "LinkConnection") -> None:
        """The handshake is done; called once, before anything else of this connection."""

    def link_message(self, connection: "LinkConnection", text: bytes) -> None:
        """One whole message."""

    def link_writable(self, connection: "LinkConnection") -> None:
        """What was queued has gone to the socket."""

    def connection_closed(self, connection: "LinkConnection", code: int, reason: str) -> None:
        """The connection is gone; called once, only after it was open."""


class LinkConnection(asyncio.Protocol):
    """One WebSocket, made by `open_connection`."""

    def __init__(
        self,
        handler: ConnectionHandler,
        url: str,
        token: str,
        *,
        attempt: int = 0,
        ping_interval_s: float = liveness.PING_INTERVAL_S,
        pong_timeout_s: float = liveness.PONG_TIMEOUT_S,
        slept_s: Callable[[], float] = slept_s,
    ) -> None:
        #: the dial that made it, as its owner numbers them
        self.attempt = attempt
        self._handler = handler
        self._liveness = liveness.Liveness(ping_interval_s, pong_timeout_s)
        self._slept_s = slept_s
        self._ws = ClientProtocol(parse_uri(url), max_size=MAX_MESSAGE_BYTES, logger=_SILENT)
        #: what websockets says of its state, looked up once for each read and not for each message
        self._open = False
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._flushing = False
        #: what is left of a message that leaves in fragments
        self._rest: memoryview | None = None
        self._fragments: list[bytes] = []
        self._text_only = True
        self._ping_timer: asyncio.TimerHandle | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._why = ""
        #: done when the handshake is, with the reason when it failed
        self.opened: asyncio.Future[None] = self._loop.create_future()

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        _keep_unsent_short(transport.get_extra_info("socket"))
        request = self._ws.connect()
        request.headers["Authorization"] = f"Bearer {self._token}"
        self._token = ""
        self._ws.send_request(request)
        self._write_out()

    def data_received(self, data: bytes) -> None:
        self._liveness.heard()
        self._ws.receive_data(data)
        self._after_receiving()

    def eof_received(self) -> bool:
        self._ws.receive_eof()
        self._after_receiving()
        return False

    def _after_receiving(self) -> None:
        self._open = self._ws.state is State.OPEN
        for event in self._ws.events_received():
            if isinstance(event, Response):
                self._handshaken()
            elif isinstance(event, Frame):
                self._take(event)
        if self._ws.handshake_exc is not None:
            self._refused(self._ws.handshake_exc)
        self._write_out()
        if not self._open and self._ws.close_expected():
            self._expect_close()

    def _handshaken(self) -> None:
        if self._ws.handshake_exc is None and not self.opened.done():
            self._live(liveness.Opened())
            self.opened.set_result(None)
            # at once: the same read may hold the other side's first messages, or its close
            self._handler.connection_opened(self)

    def _refused(self, error: Exception) -> None:
        if self.opened.done():
            return
        self.opened.set_exception(_handshake_error(error))
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT) or not self._text_only:
            return
        if frame.opcode is Opcode.BINARY:
            self._text_only = False  # nor what continues it
            self.close(UNSUPPORTED, "messages are text")
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
        self._drop_queue()
        if not self.opened.done():
            self.opened.set_exception(Unreachable("the instance closed the connection at once"))
            return
        if self.opened.cancelled() or self.opened.exception() is not None:
            return
        received = self._ws.close_rcvd
        if received is not None:
            code, reason = received.code, plain(received.reason)
        else:
            code, reason = ABNORMAL, ""
        what = self._why or reason or plain(str(exc) if exc else "") or _closed_with(code)
        self._handler.connection_closed(self, code, what)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────

    @property
    def has_room(self) -> bool:
        """Whether what is sent now goes to the socket soon. When it has none, `link_writable` says when it has again."""
        return not self._paused and self._queue_bytes < WRITE_HIGH_BYTES

    def send(self, payload: bytes) -> None:
        """Send one message of UTF-8 text. Does nothing on a connection that is closing."""
        transport = self._transport
        if transport is None or not self._open:
            return
        if self._flushing or self._paused or self._queue or len(payload) > FRAGMENT_BYTES:
            self._queue.append(payload)
            self._queue_bytes += len(payload)
            if not self._flushing and not self._paused:
                self._flush_soon()
            return
        # the first of a turn goes at once; what follows in the same turn goes together
        transport.write(text_frame(payload, os.urandom(4)))
        self._flush_soon()

    def _flush_soon(self) -> None:
        self._flushing = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._queue and not self._paused and self._open:
            self._send_batch()
        if not self._queue and not self._paused and self._open:
            self._handler.link_writable(self)

    def _send_batch(self) -> None:
        """The next messages, as far as they may go in one write."""
        transport = self._transport
        if transport is None:
            return
        frames: list[bytes] = []
        count, size = min(MAX_BATCH, len(self._queue)), 0
        masks = os.urandom(4 * count)
        for number in range(count):
            frame = self._next_frame(masks[4 * number : 4 * number + 4])
            frames.append(frame)
            size += len(frame)
            if size >= FRAGMENT_BYTES:
                break
        transport.write(b"".join(frames))

    def _next_frame(self, mask: bytes) -> bytes:
        """The next message as a frame, or the next fragment of it."""
        if self._rest is None:
            payload = self._queue[0]
            if len(payload) <= FRAGMENT_BYTES:
                self._queue.popleft()
                self._queue_bytes -= len(payload)
                return text_frame(payload, mask)
            part, self._rest = payload[:FRAGMENT_BYTES], memoryview(payload)[FRAGMENT_BYTES:]
            self._ws.send_text(part, fin=False)
        else:
            part, self._rest = bytes(self._rest[:FRAGMENT_BYTES]), self._rest[FRAGMENT_BYTES:]
            self._ws.send_continuation(part, fin=not self._rest)
        self._queue_bytes -= len(part)
        if not self._rest:
            self._rest = None
            self._queue.popleft()
        return b"".join(self._ws.data_to_send())

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queue_bytes = 0
        self._rest = None

    def _write_out(self) -> None:
        # an empty part is websockets' word for "half-close", which TLS has not: the close time-out does it
        data = b"".join(self._ws.data_to_send())
        if data and self._transport is not None:
            self._transport.write(data)

    def _live(self, what: liveness.Input) -> None:
        for effect in self._liveness.handle(what, self._loop.time()):
            match effect:
                case liveness.Ping():
                    self._ws.send_ping(b"")
                    self._write_out()
                case liveness.SetTimer(at):
                    self._ping_timer = self._loop.call_at(at, self._ping_due)
                case liveness.Dead(reason):
                    self.abort(reason)
                case _:
                    assert_never(effect)

    def _ping_due(self) -> None:
        # of a connection that is closing, the close time-out takes care
        if self._open:
            self._live(liveness.TimerFired(self._slept_s()))

    # ── closing ─────────────────────────────────────────────────────────────────────────────────

    def close(self, code: int, reason: str) -> None:
        """Close after what was sent; the other side has 5 s to do its part."""
        if self._transport is None or not self._open:
            return
        self._why = reason
        while self._queue:
            self._send_batch()
        self._open = False
        self._ws.send_close(code, reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))
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


def _keep_unsent_short(sock: socket.socket | None) -> None:
    """Have the kernel take no more than it can soon send: what it holds, nothing that is urgent overtakes."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", _NOTSENT_LOWAT.get(sys.platform))
    if sock is not None and option is not None:
        with suppress(OSError):  # no TCP, or a system that has no such option
            sock.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def _closed_with(code: int) -> str:
    if code == ABNORMAL:
        return "the connection to the instance was lost"
    return f"the instance closed the link ({code})"


def _handshake_error(error: Exception) -> LembasError:
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        if status in (401, 403):
            return TokenRefused(
                "the instance does not accept this device any more; log in again with `lembas login`"
            )
        what = "it is asked again" if status == 429 or status >= 500 else _STOPPED
        return Unreachable(
            f"the instance answers {status} to the link; {what}",
            retry_after(error.response.headers),
        )
    return Unreachable(f"the instance does not answer as one ({plain(str(error))}); {_STOPPED}")


def websocket_url(server: str) -> str:
    """The link's address at a server's base URL."""
    scheme, rest = server.split(":", 1)
    return f"{'wss' if scheme == 'https' else 'ws'}:{rest}{LINK_PATH}"


async def open_connection(
    handler: ConnectionHandler,
    server: str,
    token: str,
    context: ssl.SSLContext | None,
    *,
    attempt: int = 0,
    ping_interval_s: float = liveness.PING_INTERVAL_S,
    pong_timeout_s: float = liveness.PONG_TIMEOUT_S,
    slept_s: Callable[[], float] = slept_s,
) -> LinkConnection:
    """Open the link's WebSocket at a server's base URL.

    `handler.connection_opened` is called before this returns. Raises Unreachable when the instance is away or answers as none, TokenRefused on 401 and 403.
    """
    loop = asyncio.get_running_loop()
    parts = urlsplit(server)
    port = parts.port or (443 if context is not None else 80)
    connection = LinkConnection(
        handler,
        websocket_url(server),
        token,
        attempt=attempt,
        ping_interval_s=ping_interval_s,
        pong_timeout_s=pong_timeout_s,
        slept_s=slept_s,
    )
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            await loop.create_connection(
                lambda: connection, parts.hostname or "", port, ssl=context
            )
            await connection.opened
    except TimeoutError:
        connection.abort("")
        raise Unreachable(
            "the instance does not answer; see that it runs, and check the network"
        ) from None
    except OSError as error:
        raise Unreachable(
            f"the instance cannot be reached ({error}); see that it runs, and check the network"
        ) from error
    except asyncio.CancelledError:
        connection.abort("")
        raise
    return connection
