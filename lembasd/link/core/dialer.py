"""When to dial, when to wait and when to stop (interface.md, Link). Pure: time and chance come in as values.

A dial covers discovery and the WebSocket; it ends in exactly one of Opened, DialFailed or DialRefused. `attempt`
numbers dials, so that what an abandoned one still says is not mistaken for news of the present one.
"""

from typing import Final, assert_never

from msgspec import Struct

from lembasd.protocol.lembas import CLOSE_REFUSED

#: full-jitter exponential back-off: the n-th wait is a random part of min(60 s, 0.5 s * 2^n)
BACKOFF_FIRST_S: Final = 0.5
BACKOFF_LAST_S: Final = 60.0
#: a link that held this long was a good one: the next back-off starts from the first step
GOOD_LINK_S: Final = 60.0
#: "service restart" and "try again later" (RFC 6455's registry of close codes): all devices are closed at once, and are to
#: come back spread over this time
SERVICE_RESTART: Final = 1012
TRY_AGAIN_LATER: Final = 1013
RESTART_FIRST_S: Final = 5.0
RESTART_LAST_S: Final = 30.0
#: no server's Retry-After holds a device off for longer
RETRY_AFTER_MAX_S: Final = 3600.0
#: doubling stops mattering long before
_MAX_STEPS: Final = 20


class LoginChanged(Struct, frozen=True):
    """There is a login, or another one than before: whatever was refused may be accepted now."""


class LoginGone(Struct, frozen=True):
    """There is no login any more, or no hub that wants the link."""

    reason: str = "logged out"


class Opened(Struct, frozen=True):
    attempt: int


class DialFailed(Struct, frozen=True):
    """The instance is away. `chance` is a random number in [0, 1)."""

    attempt: int
    reason: str
    chance: float
    retry_after_s: float | None = None


class DialRefused(Struct, frozen=True):
    """The instance will not have this device as it is: another protocol, or a token it does not know."""

    attempt: int
    reason: str


class Closed(Struct, frozen=True):
    """An open link ended. `code`: the close code, 1006 for a link that was lost."""

    attempt: int
    reason: str
    chance: float
    code: int = 1006


class Redial(Struct, frozen=True):
    """What was said in hello or initialize has changed: close and dial at once."""

    reason: str


class Woke(Struct, frozen=True):
    """The machine slept: whatever was open is doubtful, and waiting makes no sense."""


class TimerFired(Struct, frozen=True):
    attempt: int


Input = (
    LoginChanged
    | LoginGone
    | Opened
    | DialFailed
    | DialRefused
    | Closed
    | Redial
    | Woke
    | TimerFired
)


class Dial(Struct, frozen=True):
    attempt: int


class SetTimer(Struct, frozen=True):
    """TimerFired with this attempt is due at `at`; it takes the place of any earlier one."""

    attempt: int
    at: float


class CloseLink(Struct, frozen=True):
    """Close the open link, or give up the dial under way; nothing more of it counts."""

    attempt: int
    reason: str


Effect = Dial | SetTimer | CloseLink


class Dialer:
    """`state`: idle (no login), dialling, open, waiting (for the next dial), refused (until a new login)."""

    def __init__(self) -> None:
        self.state = "idle"
        #: why it is waiting or refused, for a person
        self.reason = ""
        #: when the next dial is due, while waiting
        self.next_at: float | None = None
        self._attempt = 0
        self._steps = 0
        self._opened_at = 0.0

    def handle(self, news: Input, now: float) -> list[Effect]:  # noqa: C901 - one arm an input
        """Take one piece of news; what is to be done."""
        match news:
            case LoginChanged():
                return self._again("the login changed")
            case LoginGone(reason):
                effects = self._give_up(reason)
                self.state, self.reason, self.next_at = "idle", "", None
                return effects
            case Redial(reason):
                # a link that is not open has said nothing yet
                return self._again(reason) if self.state == "open" else []
            case Woke():
                if self.state in ("idle", "refused"):
                    return []
                return self._again("the machine woke")
            case TimerFired(attempt):
                return self._dial() if self._current(attempt, "waiting") else []
            case Opened(attempt):
                if self._current(attempt, "dialling"):
                    self.state, self.reason, self._opened_at = "open", "", now
                return []
            case DialFailed(attempt):
                return self._failed(news, now) if self._current(attempt, "dialling") else []
            case DialRefused(attempt, reason):
                if self._current(attempt, "dialling"):
                    self.state, self.reason = "refused", reason
                return []
            case Closed():
                return self._closed(news, now)
            case _:
                assert_never(news)

    def _current(self, attempt: int, state: str) -> bool:
        return attempt == self._attempt and self.state == state

    def _dial(self) -> list[Effect]:
        self._attempt += 1
        self.state, self.next_at = "dialling", None
        return [Dial(self._attempt)]

    def _give_up(self, reason: str) -> list[Effect]:
        if self.state in ("open", "dialling"):
            return [CloseLink(self._attempt, reason)]
        return []

    def _again(self, reason: str) -> list[Effect]:
        effects = self._give_up(reason)
        self._steps, self.reason = 0, ""
        return effects + self._dial()

    def _closed(self, closed: Closed, now: float) -> list[Effect]:
        if not self._current(closed.attempt, "open"):
            return []
        if closed.code == CLOSE_REFUSED:
            self.state, self.reason = "refused", closed.reason
            return []
        if now - self._opened_at >= GOOD_LINK_S:
            self._steps = 0
        if closed.code in (SERVICE_RESTART, TRY_AGAIN_LATER):
            ceiling = max(RESTART_LAST_S, self._ceiling())
            spread = RESTART_FIRST_S + closed.chance * (ceiling - RESTART_FIRST_S)
            return self._wait(closed.reason, spread, now)
        return self._wait(closed.reason, closed.chance * self._ceiling(), now)

    def _failed(self, failed: DialFailed, now: float) -> list[Effect]:
        wait_s = failed.chance * self._ceiling()
        if failed.retry_after_s is not None:
            # asked to stay away for so long: not earlier, and not all at the same instant
            wait_s += min(max(0.0, failed.retry_after_s), RETRY_AFTER_MAX_S)
        return self._wait(failed.reason, wait_s, now)

    def _ceiling(self) -> float:
        return min(BACKOFF_LAST_S, BACKOFF_FIRST_S * float(2 ** min(self._steps, _MAX_STEPS)))

    def _wait(self, reason: str, wait_s: float, now: float) -> list[Effect]:
        self.state, self.reason = "waiting", reason
        self._steps += 1
        self.next_at = now + wait_s
        return [SetTimer(self._attempt, self.next_at)]
