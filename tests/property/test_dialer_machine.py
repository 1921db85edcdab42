"""Whatever happens in whatever order, the dialer's promises hold."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.link.core import dialer as machine
from lembasd.link.core.dialer import (
    BACKOFF_FIRST_S,
    BACKOFF_LAST_S,
    GOOD_LINK_S,
    RETRY_AFTER_MAX_S,
    CloseLink,
    Dial,
    Dialer,
    SetTimer,
)

CHANCES = st.floats(min_value=0.0, max_value=1.0, exclude_max=True)


class DialerMachine(RuleBasedStateMachine):
    """A runner without sockets: it does what the dialer says and reports any outcome the world could have."""

    def __init__(self) -> None:
        super().__init__()
        self.dialer = Dialer()
        self.now = 0.0
        self.logged_in = False
        #: the one dial or link there is, by its attempt
        self.dialling: int | None = None
        self.open: int | None = None
        self.opened_at = 0.0
        self.timer: SetTimer | None = None
        self.refused = False
        self.failures = 0
        self.attempts: list[int] = []

    def feed(self, news: machine.Input) -> list[machine.Effect]:
        effects = self.dialer.handle(news, self.now)
        for effect in effects:
            match effect:
                case Dial(attempt):
                    assert self.logged_in
                    assert not self.refused
                    assert self.dialling is None
                    assert self.open is None
                    assert attempt not in self.attempts
                    self.attempts.append(attempt)
                    self.dialling, self.timer = attempt, None
                case SetTimer():
                    assert self.dialling is None
                    assert self.open is None
                    self.timer = effect
                case CloseLink(attempt, _):
                    assert attempt in (self.dialling, self.open)
                    self.dialling = self.open = None
        return effects

    def waited(self, effects: list[machine.Effect], asked: float | None) -> None:
        """The wait lies in full-jitter bounds, after what the server asked for."""
        (timer,) = effects
        assert isinstance(timer, SetTimer)
        bound = min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2.0**self.failures)
        self.failures += 1
        least = min(max(asked or 0.0, 0.0), RETRY_AFTER_MAX_S)
        assert self.now + least <= timer.at <= self.now + least + bound
        assert timer.at == self.dialer.next_at

    @rule(seconds=st.floats(min_value=0.0, max_value=200.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def logs_in(self) -> None:
        self.logged_in, self.refused, self.failures = True, False, 0
        assert self.feed(machine.LoginChanged())[-1] == Dial(self.attempts[-1])

    @rule()
    def logs_out(self) -> None:
        self.logged_in, self.refused = False, False
        assert not any(isinstance(effect, Dial) for effect in self.feed(machine.LoginGone()))
        self.timer = None

    @rule()
    def wakes(self) -> None:
        before = len(self.attempts)
        self.failures = 0 if self.logged_in and not self.refused else self.failures
        self.feed(machine.Woke())
        assert len(self.attempts) == before + (self.logged_in and not self.refused)

    @rule()
    def limits_change(self) -> None:
        was_open, before = self.open is not None, len(self.attempts)
        self.failures = 0 if was_open else self.failures
        self.feed(machine.Redial("limits"))
        assert len(self.attempts) == before + was_open

    @precondition(lambda self: self.dialling is not None)
    @rule()
    def dial_succeeds(self) -> None:
        attempt, self.dialling = self.dialling, None
        assert attempt is not None
        self.open, self.opened_at = attempt, self.now
        assert self.feed(machine.Opened(attempt)) == []

    @precondition(lambda self: self.dialling is not None)
    @rule(chance=CHANCES, asked=st.none() | st.floats(min_value=-10.0, max_value=10_000.0))
    def dial_fails(self, chance: float, asked: float | None) -> None:
        attempt, self.dialling = self.dialling, None
        assert attempt is not None
        self.waited(self.feed(machine.DialFailed(attempt, "away", chance, asked)), asked)

    @precondition(lambda self: self.dialling is not None)
    @rule()
    def dial_is_refused(self) -> None:
        attempt, self.dialling = self.dialling, None
        assert attempt is not None
        self.refused = True
        assert self.feed(machine.DialRefused(attempt, "protocol")) == []

    @precondition(lambda self: self.open is not None)
    @rule(chance=CHANCES)
    def link_ends(self, chance: float) -> None:
        attempt, self.open = self.open, None
        assert attempt is not None
        if self.now - self.opened_at >= GOOD_LINK_S:
            self.failures = 0
        self.waited(self.feed(machine.Closed(attempt, "lost", chance)), None)

    @precondition(lambda self: self.open is not None)
    @rule(chance=CHANCES, code=st.sampled_from([1012, 1013]))
    def instance_restarts(self, chance: float, code: int) -> None:
        attempt, self.open = self.open, None
        assert attempt is not None
        if self.now - self.opened_at >= GOOD_LINK_S:
            self.failures = 0
        effects = self.feed(machine.Closed(attempt, "restarting", chance, code))
        (timer,) = effects
        assert isinstance(timer, machine.SetTimer)
        assert machine.RESTART_FIRST_S <= timer.at - self.now <= machine.BACKOFF_LAST_S
        self.failures += 1
        self.due = timer.at

    @precondition(lambda self: self.open is not None)
    @rule()
    def link_is_refused(self) -> None:
        attempt, self.open = self.open, None
        assert attempt is not None
        self.refused = True
        assert self.feed(machine.Closed(attempt, "4400", 0.5, 4400)) == []

    @precondition(lambda self: self.timer is not None)
    @rule()
    def timer_fires(self) -> None:
        timer, self.timer = self.timer, None
        assert timer is not None
        self.now = max(self.now, timer.at)
        assert self.feed(machine.TimerFired(timer.attempt)) == [Dial(self.attempts[-1])]

    @precondition(lambda self: len(self.attempts) > 1)
    @rule(data=st.data(), chance=CHANCES, refused=st.booleans())
    def an_old_dial_speaks(self, data: st.DataObject, chance: float, refused: bool) -> None:
        attempt = data.draw(st.sampled_from(self.attempts[:-1]))
        late: list[machine.Input] = [
            machine.Opened(attempt),
            machine.DialFailed(attempt, "late", chance),
            machine.DialRefused(attempt, "late"),
            machine.Closed(attempt, "late", chance, 4400 if refused else 1006),
            machine.TimerFired(attempt),
        ]
        assert self.feed(data.draw(st.sampled_from(late))) == []

    @invariant()
    def it_knows_what_it_does(self) -> None:
        expected = "idle"
        if self.refused:
            expected = "refused"
        elif self.dialling is not None:
            expected = "dialling"
        elif self.open is not None:
            expected = "open"
        elif self.timer is not None:
            expected = "waiting"
        assert self.dialer.state == expected
        assert (self.dialer.next_at is not None) == (expected == "waiting")


TestDialer = DialerMachine.TestCase
TestDialer.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
