"""The device authorization grant (RFC 8628). Pure: codes and the time come in as values."""

from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

#: a code nobody approved by then is refused with expired_token
EXPIRES_S: Final = 600.0
#: how often a device may ask; asking sooner gets slow_down
INTERVAL_S: Final = 1.0
#: RFC 8628, 3.5: what each slow_down adds to the interval
SLOW_DOWN_S: Final = 5.0
#: a poll this much before its time is forgiven: timers are not exact
GRACE_S: Final = 0.2
#: codes nobody has used yet; at the bound a new login is refused until some are approved, denied or expired
MAX_PENDING: Final = 32
#: how long a code that has come to its end is still answered with its own reason
REMEMBER_S: Final = 600.0
SCOPES: Final = ("models", "memory", "link")


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Begin(Struct, frozen=True):
    """A device asks for a code. `scope` "" stands for all; the codes are fresh random ones."""

    device_code: str
    user_code: str
    client_id: str
    scope: str = ""
    approve: bool = False


class Poll(Struct, frozen=True):
    """A device asks whether its code was approved."""

    device_code: str
    client_id: str


class Decide(Struct, frozen=True):
    """The person approved or denied the login with this code."""

    user_code: str
    approve: bool


Input = Begin | Poll | Decide


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class Begun(Struct, frozen=True):
    """Give the device its codes."""

    device_code: str
    user_code: str
    expires_in_s: float
    interval_s: float


class Refuse(Struct, frozen=True):
    """Answer with this OAuth error; `description` is a sentence for a person."""

    error: str
    description: str


class IssueToken(Struct, frozen=True):
    """Make a token of this scope and give it to the device; its code is used up."""

    client_id: str
    scope: str


class Decided(Struct, frozen=True):
    """The person's decision is noted."""

    user_code: str


class NoSuchLogin(Struct, frozen=True):
    """There is no login with this code that still waits."""


Effect = Begun | Refuse | IssueToken | Decided | NoSuchLogin


class Login(Struct, frozen=True):
    """One login. `approved` is None until the person has decided."""

    device_code: str
    user_code: str
    client_id: str
    scope: str
    expires_at: float
    interval_s: float = INTERVAL_S
    approved: bool | None = None
    polled_at: float | None = None


def plain_code(text: str) -> str:
    """A user code as the person may have typed it, in the form it was given."""
    letters = "".join(character for character in text.upper() if character.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


class Grants:
    """All logins that are under way. A code gives at most one token, and only after approval and before expiry."""

    def __init__(self) -> None:
        self._logins: dict[str, Login] = {}

    def pending(self, now: float) -> list[Login]:
        """The logins that wait for the person, oldest first."""
        return [
            login
            for login in self._logins.values()
            if login.approved is None and now < login.expires_at
        ]

    def handle(self, item: Input, now: float) -> list[Effect]:
        """`now` in seconds of any clock that only goes forward."""
        self._forget(now)
        match item:
            case Begin():
                return [self._begin(item, now)]
            case Poll():
                return [self._poll(item, now)]
            case Decide():
                return [self._decide(item, now)]
            case _:
                assert_never(item)

    def _forget(self, now: float) -> None:
        for code, login in list(self._logins.items()):
            if now >= login.expires_at + REMEMBER_S:
                del self._logins[code]

    def _begin(self, asked: Begin, now: float) -> Effect:
        if not asked.client_id:
            return Refuse("invalid_client", "say who asks with client_id")
        wanted = asked.scope.split() or list(SCOPES)
        if any(name not in SCOPES for name in wanted):
            return Refuse("invalid_scope", f"the scopes here are {' '.join(SCOPES)}")
        ended = [
            code
            for code, login in self._logins.items()
            if login.approved is False or now >= login.expires_at
        ]
        if len(self._logins) - len(ended) >= MAX_PENDING:
            return Refuse(
                "temporarily_unavailable",
                "too many logins wait; approve or deny some on the instance's page",
            )
        if len(ended) >= MAX_PENDING:  # the oldest one's reason is forgotten
            del self._logins[ended[0]]
        self._logins[asked.device_code] = Login(
            device_code=asked.device_code,
            user_code=asked.user_code,
            client_id=asked.client_id,
            scope=" ".join(name for name in SCOPES if name in wanted),
            expires_at=now + EXPIRES_S,
            approved=True if asked.approve else None,
        )
        return Begun(asked.device_code, asked.user_code, EXPIRES_S, INTERVAL_S)

    def _poll(self, asked: Poll, now: float) -> Effect:
        login = self._logins.get(asked.device_code)
        if login is None or login.client_id != asked.client_id:
            return Refuse("invalid_grant", "this code is unknown or used up; log in again")
        if now >= login.expires_at:
            return Refuse("expired_token", "nobody approved in time; log in again")
        if login.approved is False:
            return Refuse("access_denied", "the login was denied on the instance's page")
        if login.approved:
            del self._logins[asked.device_code]
            return IssueToken(login.client_id, login.scope)
        early = login.polled_at is not None and (now < login.polled_at + login.interval_s - GRACE_S)
        interval_s = login.interval_s + SLOW_DOWN_S if early else login.interval_s
        self._logins[asked.device_code] = replace(login, polled_at=now, interval_s=interval_s)
        if early:
            return Refuse("slow_down", f"ask every {interval_s:g} s")
        return Refuse("authorization_pending", "approve the login on the instance's page")

    def _decide(self, decision: Decide, now: float) -> Effect:
        wanted = plain_code(decision.user_code)
        for login in self.pending(now):
            if login.user_code == wanted:
                self._logins[login.device_code] = replace(login, approved=decision.approve)
                return Decided(login.user_code)
        return NoSuchLogin()
