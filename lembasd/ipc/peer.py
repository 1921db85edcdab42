"""One connection on the hub socket, either side: frames in and out, hello first, control never behind bulk.

A peer reads always (a socket that carries control is never paused). It writes small frames at once while the
socket takes them; what the socket does not take waits in one queue per channel, frames of different channels in
turn, so that a long message delays nobody else. The queue's bound is its sender's business: `queued_bytes` and
`peer_writable` say how it stands.
"""

import asyncio
import os
import socket
import struct
import sys
from collections import deque
from typing import Final, Protocol, cast

import msgspec

from lembasd.device import process_tree
from lembasd.ipc.framing import AssemblyBudget, FrameDecoder, MessageAssembler, encode_frame, split
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Unknown
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import FrameError
from lembasd.protocol.hello import Hello
from lembasd.protocol.limits import HELLO_TIMEOUT_S, KIB, MIB

#: bytes in the transport's own buffer over which a peer queues by channel: small, so that control overtakes soon
WRITE_HIGH_BYTES: Final = 128 * KIB
WRITE_LOW_BYTES: Final = 32 * KIB
#: of control frames that the other side has not read. One that sends on (pings, say) and never reads is cut off
MAX_UNREAD_CONTROL_BYTES: Final = MIB

_hello_decoder: Final = msgspec.json.Decoder(Hello)


class PeerHandler(Protocol):
    """What happens on a peer. Called from the loop; must not block and must not raise."""

    def peer_hello(self, peer: "Peer", hello: Hello) -> None:
        """The first frame came. The accepting side sends its own hello now."""

    def peer_message(self, peer: "Peer", message: Envelope) -> None:
        """A whole message (its frames put together)."""

    def peer_writable(self, peer: "Peer") -> None:
        """Everything queued has been taken by the socket."""

    def peer_lost(self, peer: "Peer", reason: str) -> None:
        """The connection is gone; called once, also when no hello ever came."""


class Peer(asyncio.Protocol):
    """One connection. `hello` is the other side's, None before it came. `accepted`: the other side dialled."""

    def __init__(
        self, handler: PeerHandler, budget: AssemblyBudget, *, accepted: bool = False
    ) -> None:
        self._accepted = accepted
        self._handler = handler
        self._decoder = FrameDecoder()
        self._assembler = MessageAssembler(budget)
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._queues: dict[str, deque[bytes]] = {}
        self._message_number = 0
        self._hello_timer: asyncio.TimerHandle | None = None
        self._reason = "closed by the other side"
        self.hello: Hello | None = None
        self.queued_bytes = 0
        self.pid: int | None = None
        #: when the process that dialled started, for its pid may be used again; None: it was gone already
        self.started_at: float | None = None
        self.uid: int | None = None

    # ── asyncio.Protocol ────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        self.pid, self.uid = peer_credentials(transport.get_extra_info("socket"))
        if self._accepted and self.pid is not None:
            self.started_at = process_tree.started_at(self.pid)
        if self.uid is not None and self.uid != os.getuid():
            self.close("the peer is another user")
            return
        self._hello_timer = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self._no_hello)

    def _no_hello(self) -> None:
        self.close(f"no hello within {HELLO_TIMEOUT_S:g} s")

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                message = self._assembler.add(frame)
                if message is not None:
                    self._take(message)
        except FrameError as error:
            self.close(str(error))

    def _take(self, message: Envelope) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self.hello is None:
            self._take_hello(message)
        elif message.kind == kinds.PING:
            self.send_control(Envelope(kind=kinds.PONG))
        else:
            self._handler.peer_message(self, message)

    def _take_hello(self, message: Envelope) -> None:
        if message.kind != kinds.HELLO:
            raise FrameError("the first frame is no hello")
        try:
            self.hello = _hello_decoder.decode(message.payload)
        except msgspec.MsgspecError as error:
            raise FrameError("the hello cannot be read") from error
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._handler.peer_hello(self, self.hello)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._transport = None
        self._queues.clear()
        self.queued_bytes = 0
        self._assembler.close()
        self._handler.peer_lost(self, self._reason if exc is None else str(exc))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pump()
        if not self._queues and not self._paused:
            self._handler.peer_writable(self)

    # ── sending ─────────────────────────────────────────────────────────────────────────────────

    @property
    def is_same(self) -> bool:
        """Of an accepted peer: whether the process of `pid` is still the one that dialled. True where no pid is known."""
        if self.pid is None:
            return True
        now = process_tree.started_at(self.pid)
        return now is not None and now == self.started_at

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def writable(self) -> bool:
        """Whether what is sent now goes to the socket at once."""
        return self.is_open and not self._paused and not self._queues

    @property
    def buffered_bytes(self) -> int:
        """Bytes sent that the kernel has not taken: the queues' and the transport's."""
        transport = self._transport
        held = transport.get_write_buffer_size() if transport is not None else 0
        return self.queued_bytes + held

    def send_control(self, frame: Envelope) -> None:
        """Send a frame of one at once, before anything queued. Does nothing on a closed peer."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_UNREAD_CONTROL_BYTES:
            self.abort("the other side does not read")
            return
        transport.write(encode_frame(frame))

    def send(self, message: Envelope) -> None:
        """Send a message behind what its channel has queued. Does nothing on a closed peer."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._message_number += 1
        queue = self._queues.get(message.channel)
        for frame in split(message, self._message_number):
            data = encode_frame(frame)
            if queue is None and not self._paused:
                transport.write(data)
                continue
            if queue is None:
                queue = self._queues[message.channel] = deque()
            queue.append(data)
            self.queued_bytes += len(data)

    def send_hello(self, hello: Hello) -> None:
        self.send_control(Envelope(kind=kinds.HELLO, payload=msgspec.json.encode(hello)))

    def answer_unknown(self, message: Envelope) -> None:
        """Say that `message`'s kind is not known; such an answer is itself never answered."""
        if message.kind != kinds.UNKNOWN:
            payload = msgspec.json.encode(Unknown(message.kind[:64]))
            self.send_control(Envelope(kind=kinds.UNKNOWN, payload=payload))

    def _pump(self) -> None:
        """Write queued frames, one a channel in turn, until the socket is full."""
        while self._queues and not self._paused and self._transport is not None:
            for channel in list(self._queues):
                queue = self._queues[channel]
                data = queue.popleft()
                self.queued_bytes -= len(data)
                if not queue:
                    del self._queues[channel]
                self._transport.write(data)
                if self._paused:
                    return

    def close(self, reason: str = "closed") -> None:
        """Close after what the transport holds is written. Queued messages are dropped."""
        if self._transport is not None and not self._transport.is_closing():
            self._reason = reason
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once, dropping everything unsent: for a peer that does not read."""
        if self._transport is not None:
            self._reason = reason
            self._transport.abort()


def peer_credentials(sock: socket.socket) -> tuple[int | None, int | None]:
    """(pid, uid) of the process at the other end of a Unix socket, None where the kernel does not say."""
    if sys.platform == "linux":
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _gid = struct.unpack("3i", packed)
        return pid or None, uid
    return _bsd_credentials(sock)


#: <sys/un.h>: getsockopt level and names of a local socket on macOS
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2


def _bsd_credentials(sock: socket.socket) -> tuple[int | None, int | None]:
    try:
        # struct xucred { u_int version; uid_t uid; short ngroups; gid_t groups[16]; }
        _version, uid = struct.unpack_from("=Ii", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))
        (pid,) = struct.unpack("=i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))
    except OSError:
        return None, None
    return pid, uid
