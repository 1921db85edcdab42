"""Whether the other side of an open link still answers. Pure: both clocks come in as values.

`now` is monotonic seconds, a clock that stands still while the machine sleeps; `slept_s` is how long it has slept so
far. The answer to a ping has its time on the first; where the second says that the machine slept meanwhile, or the timer
comes late because this process stood still, the other side has had no chance to answer and is asked once more.
"""

from typing import Final, assert_never

from msgspec import Struct

#: a ping this often, and an answer (or anything else) to it within this time, or the link is dead
PING_INTERVAL_S: Final = 20.0
PONG_TIMEOUT_S: Final = 20.0
#: a timer that comes later than this says that the process stood still; it was stopped, or starved
LATE_S: Final = 1.0


class Opened(Struct, frozen=True):
    """The handshake is done."""


class TimerFired(Struct, frozen=True):
    slept_s: float


Input = Opened | TimerFired


class Ping(Struct, frozen=True):
    pass


class SetTimer(Struct, frozen=True):
    """TimerFired is due at `at`; it takes the place of any earlier one."""

    at: float


class Dead(Struct, frozen=True):
    """Give the connection up."""

    reason: str


Effect = Ping | SetTimer | Dead


class Liveness:
    """Of one connection."""

    def __init__(
        self, interval_s: float = PING_INTERVAL_S, timeout_s: float = PONG_TIMEOUT_S
    ) -> None:
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._heard = True
        #: pings since something was heard
        self._asked = 0
        self._due = 0.0
        self._slept_s = 0.0

    def heard(self) -> None:
        """Something came from the other side (called for each read)."""
        self._heard = True

    def handle(self, what: Input, now: float) -> list[Effect]:
        """Take one input; the effects are to be performed in order."""
        match what:
            case Opened():
                return [self._timer(now + self._interval_s)]
            case TimerFired(slept_s):
                return self._fired(slept_s, now)
            case _:
                assert_never(what)

    def _fired(self, slept_s: float, now: float) -> list[Effect]:
        stood_still = now - self._due > LATE_S or slept_s - self._slept_s > LATE_S
        if self._asked and self._heard:
            self._asked = 0
            return [self._timer(now + self._interval_s)]
        if self._asked == 0 or (self._asked == 1 and stood_still):
            return self._ask(slept_s, now)
        return [Dead(f"the instance did not answer a ping within {self._timeout_s:g} s")]

    def _ask(self, slept_s: float, now: float) -> list[Effect]:
        self._asked, self._heard, self._slept_s = self._asked + 1, False, slept_s
        return [Ping(), self._timer(now + self._timeout_s)]

    def _timer(self, at: float) -> SetTimer:
        self._due = at
        return SetTimer(at)
