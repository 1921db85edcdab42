"""When to dial, when to wait and when to stop (interface.md, Link). Pure: time and chance come in as values.

A dial covers discovery and the WebSocket; it ends in exactly one of Opened, DialFailed or DialRefused. `attempt`
numbers dials, so that what an abandoned one still says is not mistaken for news of the present one.
"""

from typing import Final, assert_never

from msgspec import Struct

#: full-jitter exponential back-off: the n-th wait is a random part of min(60 s, 0.5 s * 2^n)
BACKOFF_FIRST_S: Final = 0.5
BACKOFF_LAST_S: Final = 60.0
#: a link that held this long was a good one: the next back-off starts from the first step
GOOD_LINK_S: Final = 60.0
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
    """An open link ended. `refused`: closed with 4400."""

    attempt: int
    reason: str
    chance: float
    refused: bool = False


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
            case DialFailed(attempt, reason, chance, retry_after_s):
                if not self._current(attempt, "dialling"):
                    return []
                return self._wait(reason, chance, retry_after_s, now)
            case DialRefused(attempt, reason):
                if self._current(attempt, "dialling"):
                    self.state, self.reason = "refused", reason
                return []
            case Closed(attempt, reason, chance, refused):
                return self._closed(attempt, reason, chance, now, refused=refused)
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

    def _closed(
        self, attempt: int, reason: str, chance: float, now: float, *, refused: bool
    ) -> list[Effect]:
        if not self._current(attempt, "open"):
            return []
        if refused:
            self.state, self.reason = "refused", reason
            return []
        if now - self._opened_at >= GOOD_LINK_S:
            self._steps = 0
        return self._wait(reason, chance, None, now)

    def _wait(
        self, reason: str, chance: float, retry_after_s: float | None, now: float
    ) -> list[Effect]:
        self.state, self.reason = "waiting", reason
        ceiling = min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2 ** min(self._steps, _MAX_STEPS))
        self._steps += 1
        wait = chance * ceiling
        if retry_after_s is not None:
            # asked to stay away for so long: not earlier, and not all at the same instant
            wait += min(max(0.0, retry_after_s), RETRY_AFTER_MAX_S)
        self.next_at = now + wait
        return [SetTimer(self._attempt, self.next_at)]
