"""When a terminal's output is read, kept back, sent, left out and sent again.

Each viewer is sent the output from where it begins on, every byte in order, as far as its window allows: what is sent
and not yet said to have arrived (`Acknowledged`) or to have been taken (`Credited`) is bounded. The fastest viewer sets
the pace: reading pauses exactly while every viewer has more than HIGH_BYTES before it, and then the kernel holds the
program. With nobody looking everything is read into the record, so that no program ever waits for a person.

A viewer that falls far behind the fastest is not dragged through all of it: when it has taken what it was sent, it
gets a redraw, as a newcomer does.

A small read is a person's echo and goes at once; large ones wait a moment to leave together. Chunks end between
characters and sequences where they can. An interrupt leaves out what is not sent yet, up to the last such place.
"""

from collections import deque
from typing import Final, assert_never

from msgspec import Struct

from lembasd.protocol.limits import KIB, MAX_TERMINAL_CHUNK_BYTES, MIB
from lembasd.pty.core import escapes, queries
from lembasd.pty.core.record import Record, Size

#: wire bytes before the fastest viewer over which reading pauses, and a viewer's window; room for at least four full
#: chunks, or what is said to have arrived a whole chunk at a time would never let the next one go
HIGH_BYTES: Final = 256 * KIB
#: a read below this is an echo: it leaves at once, with what was kept back
ECHO_BYTES: Final = 1 * KIB
#: how long a larger read may wait for more
COALESCE_S: Final = 0.004
#: output that a viewer was not sent, over which it gets a redraw in the place of it
BEHIND_BYTES: Final = 1 * MIB
#: after the last output, how long a viewer has to take it; then it is told the end without it
END_S: Final = 30.0


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Read(Struct, frozen=True):
    """The terminal gave these bytes (never empty)."""

    data: bytes


class Resized(Struct, frozen=True):
    """What is read from now on was written for this size."""

    cols: int
    rows: int


class Interrupted(Struct, frozen=True):
    """The person has typed the interrupt key, and what is under way is to be dropped."""


class OutputEnded(Struct, frozen=True):
    """Nothing more will be read."""


class Credited(Struct, frozen=True):
    """These wire bytes have been taken by the viewer's socket."""

    viewer: int
    count: int


class Acknowledged(Struct, frozen=True):
    """The viewer has shown everything before `offset`."""

    viewer: int
    offset: int


class Discarded(Struct, frozen=True):
    """These wire bytes, the last of what was sent to the viewer, were left out."""

    viewer: int
    count: int


class ViewerAttached(Struct, frozen=True):
    """`since`: the offset where it stopped; None: it has nothing. `raw`: what it is sent is no base64 in a message."""

    viewer: int
    since: int | None = None
    raw: bool = False


class ViewerDetached(Struct, frozen=True):
    """`returns`: it is waited for, and the end of the output is kept for it."""

    viewer: int
    returns: bool = False


class HubLost(Struct, frozen=True):
    """The connection is gone, and with it every viewer and all that was on its way. `returns`: as of a viewer."""

    returns: bool = False


class NobodyReturns(Struct, frozen=True):
    """Whoever was waited for has not come, or the terminal is closed: who leaves from now on is not waited for either."""


class TimerFired(Struct, frozen=True):
    """The time of the last SetTimer has come."""


class EndTimerFired(Struct, frozen=True):
    """The time of SetEndTimer has come."""


Input = (
    Read
    | Resized
    | Interrupted
    | OutputEnded
    | Credited
    | Acknowledged
    | Discarded
    | ViewerAttached
    | ViewerDetached
    | HubLost
    | NobodyReturns
    | TimerFired
    | EndTimerFired
)


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class Send(Struct, frozen=True):
    """Send output to one viewer: at most MAX_TERMINAL_CHUNK_BYTES.

    `offset`: where it begins; of a redraw's beginning, which is no output, where the output after it does. `size`: set
    where it is another than that of the piece before. `may_leave_out`: it begins and ends between sequences. `raw`: as
    it is, without base64 and message.
    """

    viewer: int
    data: bytes
    offset: int
    size: Size | None
    may_leave_out: bool
    raw: bool = False


class SayPlace(Struct, frozen=True):
    """Answer the viewer's attaching: its output begins at `offset`, on an empty screen for a redraw."""

    viewer: int
    offset: int
    redraw: bool


class SayEnd(Struct, frozen=True):
    """The viewer has been sent everything: tell it that the shell has ended."""

    viewer: int


class AskRedraw(Struct, frozen=True):
    """Have a full-screen program draw itself: a viewer begins in the middle."""


class Discard(Struct, frozen=True):
    """What was sent and has not left for its viewer may be left out."""


class PauseReading(Struct, frozen=True):
    """Read no more until ResumeReading."""


class ResumeReading(Struct, frozen=True):
    """Read again."""


class SetTimer(Struct, frozen=True):
    at: float


class CancelTimer(Struct, frozen=True):
    """The timer is not wanted any more."""


class SetEndTimer(Struct, frozen=True):
    """In the place of the one before."""

    at: float


class Finished(Struct, frozen=True):
    """All output has been sent and every viewer told of the end."""


Effect = (
    Send
    | SayPlace
    | SayEnd
    | AskRedraw
    | Discard
    | PauseReading
    | ResumeReading
    | SetTimer
    | CancelTimer
    | SetEndTimer
    | Finished
)


class _Sent(Struct):
    """A message that is on its way: where its output ends, and its wire bytes."""

    end: int
    wire: int


class _Viewer:
    """How far one viewer has been sent the output."""

    def __init__(self, *, position: int, size: Size | None, raw: bool) -> None:
        self.raw = raw
        #: the next byte to send
        self.position = position
        #: what begins the redraw, to be sent first
        self.prelude = b""
        #: the size that it was told
        self.size = size
        #: the unfinished sequence or character that its output ends with now
        self.rest = b""
        self.sent: deque[_Sent] = deque()
        self.on_the_way = 0
        #: output before this was shown before, and is shown again
        self.again = 0
        #: it is to get a redraw when what was sent has arrived
        self.is_behind = False

    def arrived(self, offset: int) -> None:
        while self.sent and self.sent[0].end <= offset:
            self.on_the_way -= self.sent.popleft().wire

    def taken(self, count: int) -> None:
        """Of the oldest messages."""
        while self.sent and count > 0:
            first = self.sent[0]
            part = min(first.wire, count)
            count -= part
            first.wire -= part
            self.on_the_way -= part
            if not first.wire:
                self.sent.popleft()

    def left_out(self, count: int) -> None:
        """Of the newest messages."""
        while self.sent and count > 0:
            last = self.sent[-1]
            part = min(last.wire, count)
            count -= part
            last.wire -= part
            self.on_the_way -= part
            if not last.wire:
                self.sent.pop()


class Flow:
    """The machine. `overhead` is what a message of output weighs beside its base64."""

    def __init__(self, overhead: int, size: Size) -> None:
        self._overhead = overhead
        self._record = Record(size)
        self._viewers: dict[int, _Viewer] = {}
        #: output before this may leave, whatever its length
        self._ripe = 0
        self._timer = False
        self._paused = False
        self._output_ended = False
        self._finished = False
        #: somebody is waited for, who is to see the end
        self._returns = False
        #: nor will be: the terminal was hung up
        self._hung_up = False

    @property
    def paused(self) -> bool:
        return self._paused

    def on_the_way(self, viewer: int) -> int:
        """Wire bytes that were sent to the viewer and have not arrived."""
        return self._viewers[viewer].on_the_way

    def handle(self, what: Input, now: float) -> list[Effect]:  # noqa: C901 - one line for each kind
        match what:
            case Read(data):
                if self._only_waits(data):
                    return []
                effects = self._read(data)
            case Resized(cols, rows):
                self._record.resize(Size(cols, rows))
                effects = []
            case Interrupted():
                effects = self._interrupt()
            case OutputEnded():
                self._output_ended, self._ripe = True, self._record.end
                effects = [*self._cancel_timer(), SetEndTimer(now + END_S)]
            case Credited(viewer, count):
                effects = []
                if viewer in self._viewers:
                    self._viewers[viewer].taken(count)
            case Acknowledged(viewer, offset):
                effects = []
                if viewer in self._viewers:
                    self._viewers[viewer].arrived(offset)
            case Discarded(viewer, count):
                effects = []
                if viewer in self._viewers:
                    self._viewers[viewer].left_out(count)
            case ViewerAttached():
                effects = self._attach(what)
                if self._output_ended:
                    effects.append(SetEndTimer(now + END_S))
            case ViewerDetached(viewer, returns):
                effects = self._leave([viewer], returns=returns)
            case HubLost(returns):
                effects = self._leave(list(self._viewers), returns=returns)
            case NobodyReturns():
                self._returns, self._hung_up = False, True
                effects = []
            case TimerFired():
                self._timer, self._ripe = False, self._record.end
                effects = []
            case EndTimerFired():
                effects = self._end_without()
            case _:
                assert_never(what)
        effects += [*self._pump(), *self._wait(now), *self._finish()]
        return effects + self._judge()

    def wire_bytes(self, count: int, *, raw: bool = False) -> int:
        """The payload of a message with `count` bytes of output."""
        return count if raw else self._overhead + (count + 2) // 3 * 4

    # ── output ──────────────────────────────────────────────────────────────────────────────────

    def _read(self, data: bytes) -> list[Effect]:
        self._record.add(data)
        if self._viewers and len(data) >= ECHO_BYTES:
            return []
        self._ripe = self._record.end
        return self._cancel_timer()

    def _only_waits(self, data: bytes) -> bool:
        """Whether a read is one of a flood's many that go to the single viewer with the next chunk; then it is kept.

        The kernel gives a flood in pieces of some four kilobytes, and stands still while we look at each.
        """
        if not self._timer or len(self._viewers) != 1 or len(data) < ECHO_BYTES:
            return False
        (viewer,) = self._viewers.values()
        waits = self._record.end - viewer.position + len(data)
        if waits >= MAX_TERMINAL_CHUNK_BYTES or not self._is_short(viewer):
            return False
        if viewer.on_the_way + self.wire_bytes(waits, raw=viewer.raw) > HIGH_BYTES:
            return False
        self._record.add(data)
        return True

    def _wait(self, now: float) -> list[Effect]:
        """What is less than a chunk waits for more, but not long."""
        if self._timer or not any(map(self._is_short, self._viewers.values())):
            return []
        self._timer = True
        return [SetTimer(now + COALESCE_S)]

    def _is_short(self, viewer: _Viewer) -> bool:
        waits = viewer.position >= self._ripe and viewer.position < self._record.end
        return waits and viewer.on_the_way < HIGH_BYTES and not viewer.is_behind

    def _pump(self) -> list[Effect]:
        effects: list[Effect] = []
        for number, viewer in self._viewers.items():
            effects += self._pump_one(number, viewer)
        return effects

    def _pump_one(self, number: int, viewer: _Viewer) -> list[Effect]:
        effects: list[Effect] = []
        behind = self._record.end - viewer.position > BEHIND_BYTES and len(self._viewers) > 1
        if behind or viewer.position < self._record.start:
            viewer.is_behind = True
        if viewer.is_behind:
            if viewer.on_the_way:
                return []
            self._redraw(viewer)
            effects.append(AskRedraw())
        while viewer.on_the_way < HIGH_BYTES:
            sent = self._next(number, viewer)
            if sent is None:
                break
            effects.append(sent)
        return effects

    def _redraw(self, viewer: _Viewer) -> None:
        viewer.position, viewer.prelude = self._record.redraw()
        viewer.is_behind, viewer.rest, viewer.size = False, b"", None
        viewer.again = self._record.end

    def _next(self, number: int, viewer: _Viewer) -> Send | None:
        """The next message for a viewer whose window is open; None: nothing is to be sent now."""
        if viewer.prelude:
            data, viewer.prelude = viewer.prelude, b""
            self._on_its_way(viewer, len(data), raw=viewer.raw)
            return Send(number, data, viewer.position, None, may_leave_out=False, raw=viewer.raw)
        waits = self._record.end - viewer.position
        if not waits or (waits < MAX_TERMINAL_CHUNK_BYTES and viewer.position >= self._ripe):
            return None
        offset = viewer.position
        data, size = self._record.read(offset, MAX_TERMINAL_CHUNK_BYTES)
        if offset < viewer.again:
            old = viewer.again - offset
            data = queries.silenced(data[:old]) + data[old:]
        rest = escapes.unfinished(viewer.rest + data)
        if len(data) == MAX_TERMINAL_CHUNK_BYTES and 0 < rest < len(data):
            data, rest = data[:-rest], 0
        whole = not viewer.rest and not rest
        seen = viewer.rest + data
        viewer.rest = escapes.opening(seen[len(seen) - rest :]) if rest else b""
        viewer.position += len(data)
        news = size if size != viewer.size else None
        viewer.size = size
        raw = viewer.raw and news is None  # a size is told in a message
        self._on_its_way(viewer, len(data), raw=raw)
        return Send(number, data, offset, news, may_leave_out=whole, raw=raw)

    def _on_its_way(self, viewer: _Viewer, count: int, *, raw: bool) -> None:
        wire = self.wire_bytes(count, raw=raw)
        viewer.sent.append(_Sent(viewer.position, wire))
        viewer.on_the_way += wire

    def _interrupt(self) -> list[Effect]:
        """Leave out what is not sent, from one place between sequences to the last one."""
        for viewer in self._viewers.values():
            if viewer.rest or viewer.prelude or viewer.is_behind:
                continue
            waits, _ = self._record.read(viewer.position, self._record.end - viewer.position)
            viewer.position += len(waits) - escapes.unfinished(waits)
        return [Discard()] if self._viewers else []

    def _judge(self) -> list[Effect]:
        paused = bool(self._viewers) and min(map(self._before, self._viewers.values())) > HIGH_BYTES
        if paused == self._paused or self._finished:
            return []
        self._paused = paused
        return [PauseReading() if paused else ResumeReading()]

    def _before(self, viewer: _Viewer) -> int:
        """Wire bytes that a viewer has before it."""
        waits = self._record.end - viewer.position
        return viewer.on_the_way + (self.wire_bytes(waits, raw=viewer.raw) if waits else 0)

    def _cancel_timer(self) -> list[Effect]:
        if not self._timer:
            return []
        self._timer = False
        return [CancelTimer()]

    # ── viewers ─────────────────────────────────────────────────────────────────────────────────

    def _attach(self, what: ViewerAttached) -> list[Effect]:
        self._returns = False
        end = self._record.end
        continues = what.since is not None and self._record.start <= what.since <= end
        position = what.since if continues and what.since is not None else end
        viewer = _Viewer(position=position, size=None, raw=what.raw)
        if continues:
            before = self._record.before(position, escapes.LOOK_BACK_BYTES)
            viewer.rest = escapes.opening(before[len(before) - escapes.unfinished(before) :])
        self._viewers[what.viewer] = viewer
        # a viewer need not wait for the others' moment
        self._ripe = end
        effects: list[Effect] = [*self._cancel_timer()]
        if not continues and end:
            self._redraw(viewer)
            effects.append(AskRedraw())
        return [
            *effects,
            SayPlace(what.viewer, viewer.position, redraw=bool(viewer.prelude)),
        ]

    def _leave(self, viewers: list[int], *, returns: bool) -> list[Effect]:
        for viewer in viewers:
            self._viewers.pop(viewer, None)
        self._returns = (self._returns or returns) and not self._hung_up
        if self._viewers:
            return []
        self._ripe = self._record.end
        return self._cancel_timer()

    # ── the end ─────────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> list[Effect]:
        """Tell of the end whoever has been sent everything."""
        if not self._output_ended or self._finished:
            return []
        done = [
            number
            for number, viewer in self._viewers.items()
            if viewer.position == self._record.end and not viewer.prelude and not viewer.is_behind
        ]
        return self._tell_end(done)

    def _end_without(self) -> list[Effect]:
        return self._tell_end(list(self._viewers))

    def _tell_end(self, viewers: list[int]) -> list[Effect]:
        effects: list[Effect] = [SayEnd(viewer) for viewer in viewers]
        for viewer in viewers:
            del self._viewers[viewer]
        if not self._viewers and not self._returns and not self._finished:
            self._finished = True
            effects.append(Finished())
        return effects
