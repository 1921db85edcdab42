"""A device code gives at most one token, only after the person's approval, only before it expires."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from lembasd.instance.core.grants import (
    EXPIRES_S,
    INTERVAL_S,
    MAX_PENDING,
    SCOPES,
    SLOW_DOWN_S,
    Begin,
    Begun,
    Decide,
    Decided,
    Grants,
    IssueToken,
    NoSuchLogin,
    Poll,
    Refuse,
)


class GrantsMachine(RuleBasedStateMachine):
    codes = Bundle("codes")

    def __init__(self) -> None:
        super().__init__()
        self.grants = Grants()
        self.now = 0.0
        self.count = 0
        self.begun_at: dict[int, float] = {}
        self.decided: dict[int, bool] = {}
        self.used: set[int] = set()

    @rule(target=codes, approve=st.booleans(), client=st.sampled_from(["cli", ""]))
    def begin(self, approve: bool, client: str) -> object:
        number = self.count
        self.count += 1
        begin = Begin(f"secret-{number}", f"{number:04}-CODE", client, approve=approve)
        waiting = len(self.grants.pending(self.now))
        [effect] = self.grants.handle(begin, self.now)
        if isinstance(effect, Refuse):
            assert effect.error in ("invalid_client", "temporarily_unavailable")
            assert (effect.error == "invalid_client") == (client == "")
            return multiple()
        assert effect == Begun(f"secret-{number}", f"{number:04}-CODE", EXPIRES_S, INTERVAL_S)
        assert waiting < MAX_PENDING
        self.begun_at[number] = self.now
        if approve:
            self.decided[number] = True
        return number

    @rule(number=codes, approve=st.booleans())
    def decide(self, number: int, approve: bool) -> None:
        [effect] = self.grants.handle(Decide(f"{number:04}-CODE", approve), self.now)
        open_ = number not in self.decided and self.now < self.begun_at[number] + EXPIRES_S
        expected = Decided(f"{number:04}-CODE") if open_ else NoSuchLogin()
        assert effect == expected
        if open_:
            self.decided[number] = approve

    @rule(number=codes, client=st.sampled_from(["cli", "another"]))
    def poll(self, number: int, client: str) -> None:
        [effect] = self.grants.handle(Poll(f"secret-{number}", client), self.now)
        may = (
            client == "cli"
            and self.decided.get(number) is True
            and number not in self.used
            and self.now < self.begun_at[number] + EXPIRES_S
        )
        if may:
            assert effect == IssueToken("cli", " ".join(SCOPES))
            self.used.add(number)
        else:
            assert isinstance(effect, Refuse)

    @rule(seconds=st.sampled_from([0.05, INTERVAL_S, SLOW_DOWN_S, EXPIRES_S / 2, EXPIRES_S * 2]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def only_what_nobody_decided_waits(self) -> None:
        waiting = {login.device_code for login in self.grants.pending(self.now)}
        assert waiting == {
            f"secret-{number}"
            for number, begun_at in self.begun_at.items()
            if number not in self.decided and self.now < begun_at + EXPIRES_S
        }


TestGrants = GrantsMachine.TestCase
TestGrants.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
