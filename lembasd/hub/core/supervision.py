"""Which processes should run, and how everything ends.

Helpers (the zygotes, or the spares of the portable path) are started again when they end, later each time, and
after too many ends only once a while: that is a crash loop, until one of them has lived for a window. A stop goes from asking to SIGTERM to SIGKILL, each after a bound, and ends
when nothing of ours is left. After a stop began nothing is started any more.
"""

from typing import Final, assert_never

from msgspec import Struct

#: wait before a helper that ended is started again; doubled at each end within the window
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
#: starts of one helper within the window; more means that it cannot run, and it is tried once a window
MAX_STARTS: Final = 6
WINDOW_S: Final = 60.0
#: how long asked processes have to cancel their turns, end their tools and leave; then SIGTERM
ASK_S: Final = 5.0
#: how long processes have after SIGTERM; then SIGKILL
TERMINATE_S: Final = 3.0
#: how long killed processes may take to be gone; then the hub leaves without them and says so
KILL_S: Final = 2.0

#: the timer of a stop; every other key is a helper's name, or ends with one
STOP_TIMER: Final = "stop"
#: the timer after which a helper that crashed again and again has not done so for a window
_STEADY: Final = "steady "


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Wanted(Struct, frozen=True):
    """This helper should run from now on."""

    helper: str


class HelperEnded(Struct, frozen=True):
    helper: str


class StopWanted(Struct, frozen=True):
    """Everything of ours is to end."""


class AllGone(Struct, frozen=True):
    """No process of ours is left but the hub."""


class TimerFired(Struct, frozen=True):
    key: str


Input = Wanted | HelperEnded | StopWanted | AllGone | TimerFired


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class StartHelper(Struct, frozen=True):
    helper: str


class SetTimer(Struct, frozen=True):
    key: str
    at: float


class LoopBegan(Struct, frozen=True):
    """A helper ends again and again: said once, until `LoopOver`."""

    helper: str


class LoopOver(Struct, frozen=True):
    """One of them lives."""

    helper: str


class AskToEnd(Struct, frozen=True):
    """Tell every process to cancel what it does and end; let the helpers go."""


class Terminate(Struct, frozen=True):
    """SIGTERM to every process of ours that is left."""


class Kill(Struct, frozen=True):
    """SIGKILL to every process of ours that is left."""


class Finish(Struct, frozen=True):
    """The stop is over. `left`: something would not end."""

    left: bool


Effect = StartHelper | SetTimer | LoopBegan | LoopOver | AskToEnd | Terminate | Kill | Finish


class Supervision:
    """The machine. One stop timer and one timer a helper; a timer that is set again is moved."""

    def __init__(self) -> None:
        self._starts: dict[str, list[float]] = {}
        self._waiting: set[str] = set()
        self._looping: set[str] = set()
        self._stop: str = ""

    @property
    def stopping(self) -> bool:
        return bool(self._stop)

    def handle(self, what: Input, now: float) -> list[Effect]:
        match what:
            case Wanted(helper):
                return self._start(helper, now)
            case HelperEnded(helper):
                return self._ended(helper, now)
            case StopWanted():
                return self._begin_stop(now)
            case AllGone():
                return self._all_gone()
            case TimerFired(key):
                return self._next_stop_step(now) if key == STOP_TIMER else self._due(key, now)
            case _:
                assert_never(what)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────

    def _start(self, helper: str, now: float) -> list[Effect]:
        if self._stop:
            return []
        recent = [at for at in self._starts.get(helper, []) if now - at < WINDOW_S]
        self._starts[helper] = [*recent, now]
        if helper in self._looping:
            return [SetTimer(_STEADY + helper, now + WINDOW_S), StartHelper(helper)]
        return [StartHelper(helper)]

    def _ended(self, helper: str, now: float) -> list[Effect]:
        if self._stop or helper in self._waiting:
            return []
        starts = [at for at in self._starts.get(helper, []) if now - at < WINDOW_S]
        out: list[Effect] = []
        if len(starts) >= MAX_STARTS:
            at = starts[-MAX_STARTS] + WINDOW_S
            if helper not in self._looping:
                self._looping.add(helper)
                out.append(LoopBegan(helper))
        else:
            at = now + min(FIRST_WAIT_S * 2 ** max(0, len(starts) - 1), LONGEST_WAIT_S)
        self._waiting.add(helper)
        return [*out, SetTimer(helper, at)]

    def _due(self, key: str, now: float) -> list[Effect]:
        helper = key.removeprefix(_STEADY)
        if helper != key:
            return self._steady(helper, now)
        if helper not in self._waiting:
            return []
        self._waiting.discard(helper)
        return self._start(helper, now)

    def _steady(self, helper: str, now: float) -> list[Effect]:
        """A window has passed since a start; one that has ended meanwhile was started later, or waits for it."""
        started = self._starts[helper][-1]
        if self._stop or helper in self._waiting or now - started < WINDOW_S:
            return []
        self._looping.discard(helper)
        return [LoopOver(helper)]

    # ── the stop ────────────────────────────────────────────────────────────────────────────────

    def _begin_stop(self, now: float) -> list[Effect]:
        if self._stop:
            return []
        self._stop = "asked"
        return [AskToEnd(), SetTimer(STOP_TIMER, now + ASK_S)]

    def _all_gone(self) -> list[Effect]:
        if self._stop in ("", "finished"):
            return []
        self._stop = "finished"
        return [Finish(left=False)]

    def _next_stop_step(self, now: float) -> list[Effect]:
        match self._stop:
            case "asked":
                self._stop = "terminated"
                return [Terminate(), SetTimer(STOP_TIMER, now + TERMINATE_S)]
            case "terminated":
                self._stop = "killed"
                return [Kill(), SetTimer(STOP_TIMER, now + KILL_S)]
            case "killed":
                self._stop = "finished"
                return [Finish(left=True)]
            case _:
                return []
