"""When a terminal's output is read, kept back, sent and replayed.

Reading pauses exactly while somebody looks and more than HIGH_BYTES are on their way unacknowledged; then the
kernel holds the program. With nobody looking everything is read into the scrollback, so that no program ever waits for
a person. What a viewer is sent from its replay on is every byte in order.

A small read is a person's echo and goes at once; large ones wait a moment to leave together.
"""

from typing import Final, assert_never

from msgspec import Struct

from lembasd.protocol.limits import KIB, MAX_TERMINAL_CHUNK_BYTES
from lembasd.pty.core.scrollback import Scrollback

#: wire bytes on their way over which reading pauses; room for at least four full chunks, or credit that comes for a
#: whole chunk at a time would never let the next one go
HIGH_BYTES: Final = 256 * KIB
#: a read below this is an echo: it leaves at once, with what was kept back
ECHO_BYTES: Final = 1 * KIB
#: how long a larger read may wait for more
COALESCE_S: Final = 0.004
#: what is replayed to whoever attaches; older output is forgotten
SCROLLBACK_BYTES: Final = 256 * KIB


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Read(Struct, frozen=True):
    """The terminal gave these bytes (never empty)."""

    data: bytes


class OutputEnded(Struct, frozen=True):
    """Nothing more will be read."""


class Credited(Struct, frozen=True):
    """These wire bytes have arrived on the viewers' side."""

    count: int


class ViewerAttached(Struct, frozen=True):
    viewer: int


class ViewerDetached(Struct, frozen=True):
    viewer: int


class HubLost(Struct, frozen=True):
    """The connection is gone, and with it every viewer and all that was on its way."""


class TimerFired(Struct, frozen=True):
    """The time of the last SetTimer has come."""


Input = Read | OutputEnded | Credited | ViewerAttached | ViewerDetached | HubLost | TimerFired


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class Send(Struct, frozen=True):
    """Send to every viewer: at most MAX_TERMINAL_CHUNK_BYTES."""

    data: bytes


class Replay(Struct, frozen=True):
    """Send to this viewer alone: at most MAX_TERMINAL_CHUNK_BYTES."""

    viewer: int
    data: bytes


class PauseReading(Struct, frozen=True):
    """Read no more until ResumeReading."""


class ResumeReading(Struct, frozen=True):
    """Read again."""


class SetTimer(Struct, frozen=True):
    at: float


class CancelTimer(Struct, frozen=True):
    """The timer is not wanted any more."""


class Finished(Struct, frozen=True):
    """All output has been sent: the end may be told."""


Effect = Send | Replay | PauseReading | ResumeReading | SetTimer | CancelTimer | Finished


class Flow:
    """The machine. `overhead` is what a message of output weighs beside its base64."""

    def __init__(self, overhead: int) -> None:
        self._overhead = overhead
        self._scrollback = Scrollback(SCROLLBACK_BYTES)
        self._viewers: set[int] = set()
        self._kept = b""
        self._timer = False
        self._on_the_way = 0
        self._paused = False

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def unacknowledged_bytes(self) -> int:
        """Wire bytes sent and not credited yet."""
        return self._on_the_way

    def handle(self, what: Input, now: float) -> list[Effect]:
        match what:
            case Read(data):
                effects = self._read(data, now)
            case OutputEnded():
                effects = [*self._flush(), Finished()]
            case Credited(count):
                self._on_the_way = max(0, self._on_the_way - count)
                effects = []
            case ViewerAttached(viewer):
                effects = self._attach(viewer)
            case ViewerDetached(viewer):
                self._viewers.discard(viewer)
                effects = [] if self._viewers else self._forget()
            case HubLost():
                self._viewers.clear()
                self._on_the_way = 0
                effects = self._forget()
            case TimerFired():
                self._timer = False
                effects = self._flush()
            case _:
                assert_never(what)
        return [*effects, *self._judge()]

    def wire_bytes(self, count: int) -> int:
        """The payload of a message with `count` bytes of output."""
        return self._overhead + (count + 2) // 3 * 4

    def _read(self, data: bytes, now: float) -> list[Effect]:
        self._scrollback.add(data)
        if not self._viewers:
            return []
        self._kept += data
        if len(data) < ECHO_BYTES:
            return self._flush()
        effects: list[Effect] = []
        while len(self._kept) >= MAX_TERMINAL_CHUNK_BYTES:
            effects.append(self._send(self._kept[:MAX_TERMINAL_CHUNK_BYTES]))
            self._kept = self._kept[MAX_TERMINAL_CHUNK_BYTES:]
        if self._kept and not self._timer:
            self._timer = True
            effects.append(SetTimer(now + COALESCE_S))
        elif not self._kept:
            effects += self._cancel_timer()
        return effects

    def _send(self, data: bytes) -> Effect:
        self._on_the_way += self.wire_bytes(len(data))
        return Send(data)

    def _flush(self) -> list[Effect]:
        """Send what was kept back."""
        kept, self._kept = self._kept, b""
        effects = [self._send(chunk) for chunk in _chunks(kept)]
        return [*effects, *self._cancel_timer()]

    def _forget(self) -> list[Effect]:
        """Nobody looks: what was kept back is in the scrollback."""
        self._kept = b""
        return self._cancel_timer()

    def _cancel_timer(self) -> list[Effect]:
        if not self._timer:
            return []
        self._timer = False
        return [CancelTimer()]

    def _attach(self, viewer: int) -> list[Effect]:
        effects = self._flush()  # the others' share first: the replay holds it too
        for chunk in _chunks(self._scrollback.replay()):
            self._on_the_way += self.wire_bytes(len(chunk))
            effects.append(Replay(viewer, chunk))
        self._viewers.add(viewer)
        return effects

    def _judge(self) -> list[Effect]:
        paused = bool(self._viewers) and self._on_the_way > HIGH_BYTES
        if paused == self._paused:
            return []
        self._paused = paused
        return [PauseReading() if paused else ResumeReading()]


def _chunks(data: bytes) -> list[bytes]:
    step = MAX_TERMINAL_CHUNK_BYTES
    return [data[start : start + step] for start in range(0, len(data), step)]
