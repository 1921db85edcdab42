"""What one client is still to be sent: a queue for each session and terminal, bounded in bytes.

Nobody waits for this client, and it is not sent everything: when a session's queue is over its mark, the first
delta that is left out makes the session *lagging*. From then on nothing of that session goes to the client but what
its worker resends to it alone; answers and cards are held and come last. When the session's queue has drained the worker
is asked to resend what came after the last message that was let through (`Resend`); its RESENT ends the lag.
Everything else is queued up to a bound, over which the client is cut: it comes back and asks how things stand.

Channels take turns, so that a flood on one delays no other by more than one message. The hot path does not
come here: while a queue is `idle` and the client's socket takes bytes, messages go straight to the socket.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.limits import KIB, MIB

#: queued bytes of one session over which its next delta is left out (it comes back merged)
LAG_CHANNEL_BYTES: Final = 256 * KIB
#: queued bytes of all channels over which any session's next delta is left out
LAG_TOTAL_BYTES: Final = 2 * MIB
#: queued bytes over which the client is cut with `_hub/gap`. More than a worker resends at once, so that a resend
#: alone cuts nobody; one message more may be queued, whatever its length
CUT_BYTES: Final = 8 * MIB


class Resend(Struct, frozen=True):
    """Ask the session's worker to send this client again what came after `seq` of `epoch`."""

    session: str
    epoch: int
    seq: int


class Cut(Struct, frozen=True):
    """The client is too far behind: say `_hub/gap` for each of these sessions (id, `epoch:seq`), then close it."""

    gaps: list[tuple[str, str]]


class _Lag:
    """A session whose messages after (`epoch`, `seq`) this client has not been sent."""

    def __init__(self, epoch: int, seq: int, held: Sequence[Envelope] = ()) -> None:
        self.epoch = epoch
        self.seq = seq
        self.asked = False
        #: answers and cards, which come last
        self.held = list(held)


class _Waiting:
    """What waits of one session or terminal."""

    __slots__ = ("base", "bytes", "messages")

    def __init__(self) -> None:
        self.messages: deque[Envelope] = deque()
        self.bytes = 0
        #: where the client is in a session whose queue holds merged messages: one number stands for several
        self.base: tuple[int, int] | None = None


class ClientQueue:
    """One client's queues. `idle`: nothing is queued and no session lags, so a message may pass it by."""

    def __init__(self) -> None:
        self.idle = True
        self.queued_bytes = 0
        self._queues: dict[str, _Waiting] = {}
        #: the same, in the order of their turns
        self._turns: deque[_Waiting] = deque()
        self._lags: dict[str, _Lag] = {}
        #: how many resends of each session are under way that a snapshot has made old
        self._outdated: dict[str, int] = {}
        self._held_bytes = 0

    # ── in ──────────────────────────────────────────────────────────────────────────────────────

    def offer(self, message: Envelope) -> Cut | None:
        """Queue the message, leave it out, or say that the client is to be cut (the message is lost with it)."""
        if message.seq and message.audience == kinds.ONE and message.channel in self._outdated:
            return None
        lag = self._lags.get(message.channel)
        if lag is None:
            waiting = self._queues.get(message.channel)
            if message.audience == kinds.ONE and message.seq:
                return self._append_again(message, waiting)
            if message.delta and message.seq and self._is_behind(waiting):
                self._lags[message.channel] = _Lag(message.epoch, message.seq - 1)
                self.idle = False
                return None
        elif message.seq == 0:
            lag.held.append(message)
            self._held_bytes += len(message.payload)
            return self._cut(message) if self._is_over else None
        elif message.audience != kinds.ONE:
            return None  # it comes again, resent to this client alone
        else:
            waiting = self._queues.get(message.channel)
        return self._append(message, waiting)

    def _append_again(self, message: Envelope, waiting: _Waiting | None) -> Cut | None:
        """Of what the client missed while it was away: it may stand for several, so that none can be left out."""
        cut = self._append(message, waiting)
        if cut is None:
            queued = self._queues[message.channel]
            queued.base = queued.base or (message.epoch, 0)
        return cut

    def _is_behind(self, waiting: _Waiting | None) -> bool:
        return self.queued_bytes > LAG_TOTAL_BYTES or (
            waiting is not None and waiting.bytes > LAG_CHANNEL_BYTES
        )

    @property
    def _is_over(self) -> bool:
        return self.queued_bytes + self._held_bytes > CUT_BYTES

    def _append(self, message: Envelope, waiting: _Waiting | None) -> Cut | None:
        if self._is_over:
            return self._cut(message)
        if waiting is None:
            waiting = self._queues[message.channel] = _Waiting()
            self._turns.append(waiting)
        size = len(message.payload)
        waiting.messages.append(message)
        waiting.bytes += size
        self.queued_bytes += size
        self.idle = False
        return None

    def _cut(self, newest: Envelope) -> Cut:
        """The client is over its bound: everything it will now miss."""
        starts: dict[str, tuple[int, int]] = {}
        for session, waiting in self._queues.items():
            if waiting.base is not None:
                starts[session] = waiting.base
        for session, lag in self._lags.items():
            _earliest(starts, session, (lag.epoch, lag.seq))
        queued = chain.from_iterable(waiting.messages for waiting in self._queues.values())
        for message in (*queued, newest):
            if message.seq:
                _earliest(starts, message.channel, (message.epoch, message.seq - 1))
        return Cut(
            [(session, f"{epoch}:{seq}") for session, (epoch, seq) in sorted(starts.items())]
        )

    # ── out ─────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> Envelope | None:
        """The next message for the socket; channels take turns. None: nothing is queued."""
        if not self._turns:
            return None
        waiting = self._turns[0]
        message = waiting.messages.popleft()
        size = len(message.payload)
        self.queued_bytes -= size
        if waiting.messages:
            waiting.bytes -= size
            self._turns.rotate(-1)
            if waiting.base is not None and message.seq:
                waiting.base = (message.epoch, message.seq)
        else:
            self._turns.popleft()
            del self._queues[message.channel]
            self._look_idle()
        return message

    def discard(self, terminal: str) -> int:
        """Leave out what is queued of a terminal's output and may be; its bytes."""
        return self._leave_out(terminal, lambda message: message.delta)

    def _leave_out(self, channel: str, unwanted: Callable[[Envelope], bool]) -> int:
        """Drop those queued messages of a channel; their bytes."""
        waiting = self._queues.get(channel)
        if waiting is None:
            return 0
        kept = deque(message for message in waiting.messages if not unwanted(message))
        left = sum(len(message.payload) for message in kept)
        count, waiting.messages, waiting.bytes = waiting.bytes - left, kept, left
        self.queued_bytes -= count
        if not kept:
            self._turns.remove(waiting)
            del self._queues[channel]
            self._look_idle()
        return count

    def catch_up(self, session: str, epoch: int, seq: int) -> None:
        """The session lags from this message on: the client was away."""
        lag = self._lags.get(session)
        held = [] if lag is None else lag.held
        self._lags[session] = _Lag(epoch, seq, held)
        self.idle = False

    def resends(self) -> list[Resend]:
        """What is to be asked of workers now: for each lagging session whose queue has drained, once."""
        if self.queued_bytes > LAG_TOTAL_BYTES // 2:
            return []  # what came back now would be left out again
        due: list[Resend] = []
        for session, lag in self._lags.items():
            if not lag.asked and session not in self._queues:
                lag.asked = True
                due.append(Resend(session, lag.epoch, lag.seq))
        return due

    def restart(self, session: str) -> Cut | None:
        """A snapshot of the session comes next, and stands for every message of it that was not sent yet."""
        lag = self._lags.get(session)
        if lag is not None and lag.asked:
            self._outdated[session] = self._outdated.get(session, 0) + 1
        self._leave_out(session, lambda message: bool(message.seq))
        cut = self._end_lag(session, lag) if lag is not None else None
        self._look_idle()
        return cut

    def _look_idle(self) -> None:
        self.idle = not self._turns and not self._lags and not self._outdated

    def resent(self, session: str) -> Cut | None:
        """The worker has resent what was left out: the lag is over, what was held back comes now."""
        if session in self._outdated:
            self._outdated[session] -= 1
            if not self._outdated[session]:
                del self._outdated[session]
            self._look_idle()
            return None
        lag = self._lags.get(session)
        if lag is None or not lag.asked:
            return None
        return self._end_lag(session, lag)

    def _end_lag(self, session: str, lag: _Lag) -> Cut | None:
        del self._lags[session]
        waiting = self._queues.get(session)
        if waiting is not None and waiting.base is None:
            waiting.base = (lag.epoch, lag.seq)
        cut: Cut | None = None
        for message in lag.held:
            self._held_bytes -= len(message.payload)
            cut = cut or self._append(message, self._queues.get(session))
        self._look_idle()
        return cut

    def card_settled(self, session: str, tool_call_id: str) -> bool:
        """Drop the card from what is held back; whether it was there (the client then never saw it)."""
        lag = self._lags.get(session)
        held = lag.held if lag is not None else []
        for message in held:
            if message.card == tool_call_id:
                held.remove(message)
                self._held_bytes -= len(message.payload)
                return True
        return False

    def session_ended(self, session: str) -> tuple[str | None, Cut | None]:
        """The session's worker is gone and can resend nothing. First: the `epoch:seq` to say in `_hub/gap`, if any."""
        lag = self._lags.get(session)
        self._outdated.pop(session, None)
        self._look_idle()
        if lag is None:
            return None, None
        return f"{lag.epoch}:{lag.seq}", self._end_lag(session, lag)

    @property
    def lagging(self) -> list[str]:
        """The sessions that lag."""
        return list(self._lags)

    @property
    def held_bytes(self) -> int:
        """Bytes of answers and cards kept until their session lags no more."""
        return self._held_bytes


def _earliest(starts: dict[str, tuple[int, int]], session: str, at: tuple[int, int]) -> None:
    starts[session] = min(starts.get(session, at), at)
