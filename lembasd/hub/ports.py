"""Where a client's messages leave the hub: its queue and its socket."""

import asyncio
from typing import Final, Protocol

from lembasd.hub.core.clients import ClientQueue, Cut, Resend
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Extensions
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.lembas import Gap
from lembasd.protocol.limits import KIB, MAX_FRAME_PAYLOAD_BYTES

#: bytes a socket's own buffer may hold before messages wait in the client's queue: small, so that what is urgent
#: overtakes soon, and what a terminal's viewer has not taken is not credited
WINDOW_BYTES: Final = 128 * KIB
#: how long a client that was cut has to take its last messages; then its connection is aborted
CUT_FLUSH_S: Final = 5.0


class Sink(Protocol):
    """A client's connection as a port sees it."""

    @property
    def room(self) -> bool:
        """Whether a message goes to the socket soon enough to be called sent."""

    def asked(self, extensions: Extensions) -> None:
        """The client said initialize, and which extensions it wants."""

    def put(self, message: Envelope) -> None: ...

    def cut(self, last: list[bytes]) -> None:
        """Send these messages before anything that is buffered, as far as that goes, and close."""


class LocalSink:
    """A client on the hub's socket. It gets a session's messages in their envelope: they carry `epoch` and `seq`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        #: bytes of long messages that the peer sends in turns with the others: they take nobody's room
        self._long_bytes = 0

    @property
    def room(self) -> bool:
        peer = self._peer
        return peer.writable or peer.buffered_bytes - self._long_bytes < WINDOW_BYTES

    def asked(self, extensions: Extensions) -> None: ...

    def put(self, message: Envelope) -> None:
        if len(message.payload) > MAX_FRAME_PAYLOAD_BYTES:
            self._long_bytes += len(message.payload)
        self._peer.send(message)

    def drained(self) -> None:
        """Everything that was put has been taken."""
        self._long_bytes = 0

    def cut(self, last: list[bytes]) -> None:
        peer = self._peer
        for payload in last:
            peer.send_control(Envelope(kind=kinds.RPC, payload=payload))
        peer.close("the client does not take its messages")
        asyncio.get_running_loop().call_later(CUT_FLUSH_S, peer.abort, "cut")


class PortOwner(Protocol):
    """What a port asks of the hub."""

    def ask_resend(self, client: int, resend: Resend) -> None: ...

    def output_taken(self, terminal: str, client: int, count: int) -> None:
        """`count` payload bytes of the channel, if it is a terminal, have gone to the client's socket."""


class ClientPort:
    """One client's way out. Messages go straight to the socket while it takes them."""

    def __init__(self, number: int, sink: Sink, owner: PortOwner) -> None:
        self.number = number
        self.queue = ClientQueue()
        self.sink = sink
        self._owner = owner
        #: the client says itself how far it has shown a terminal's output
        self.acknowledges = False
        self._is_cut = False

    def deliver(self, message: Envelope) -> None:
        """Send, queue or leave out a message of a session (the hub's hot path)."""
        if self.queue.idle and self.sink.room:
            self.sink.put(message)
        else:
            self._enqueue(message)

    def deliver_output(self, message: Envelope) -> None:
        """Send or queue a message of a terminal; what the socket took is told to the owner."""
        if self.queue.idle and self.sink.room:
            self.sink.put(message)
            if not self.acknowledges:
                self._owner.output_taken(message.channel, self.number, len(message.payload))
        else:
            self._enqueue(message)

    def _enqueue(self, message: Envelope) -> None:
        if self._is_cut:
            return
        cut = self.queue.offer(message)
        if cut is not None:
            self._cut(cut)
        elif self.sink.room:
            self.pump()

    def pump(self) -> None:
        """Send what is queued while the socket takes it, then ask for what was left out."""
        taken: dict[str, int] = {}
        while self.sink.room and not self._is_cut:
            message = self.queue.take()
            if message is None:
                break
            self.sink.put(message)
            if not message.seq and not self.acknowledges:  # a session's are not counted
                taken[message.channel] = taken.get(message.channel, 0) + len(message.payload)
        for channel, count in taken.items():
            self._owner.output_taken(channel, self.number, count)
        for resend in self.queue.resends():
            self._owner.ask_resend(self.number, resend)

    def catch_up(self, session: str, epoch: int, seq: int) -> None:
        """Have the client sent what came after this message of the session, before anything else of it."""
        self.queue.catch_up(session, epoch, seq)
        self.pump()

    def restart(self, session: str) -> None:
        """A snapshot of the session comes next: what waits of it is old."""
        self._after(self.queue.restart(session))

    def resent(self, session: str) -> None:
        """The session's worker has resent what was left out."""
        self._after(self.queue.resent(session))

    def session_ended(self, session: str) -> None:
        """The session's worker is gone; a client that lags is told what it will never get."""
        since, cut = self.queue.session_ended(session)
        if since is not None:
            self.deliver(Envelope(kind=kinds.RPC, channel=session, payload=_gap(session, since)))
        self._after(cut)

    def _after(self, cut: Cut | None) -> None:
        if cut is not None:
            self._cut(cut)
        else:
            self.pump()

    def _cut(self, cut: Cut) -> None:
        self._is_cut = True
        self.sink.cut([_gap(session, since) for session, since in cut.gaps])


def _gap(session: str, since: str) -> bytes:
    return jsonrpc.notification("_hub/gap", Gap(sessionId=session, since=since))
