"""At most N restarts a window; nothing starts after a stop; asking is followed by the end of all, or by a kill."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.hub.core.supervision import (
    ASK_S,
    KILL_S,
    MAX_STARTS,
    STOP_TIMER,
    TERMINATE_S,
    WINDOW_S,
    AllGone,
    AskToEnd,
    Effect,
    Finish,
    HelperEnded,
    Input,
    Kill,
    SetTimer,
    StartHelper,
    StopWanted,
    Supervision,
    Terminate,
    TimerFired,
    Wanted,
)

HELPERS = ["worker", "pty"]


class SupervisionMachine(RuleBasedStateMachine):
    """A runner whose timers fire when time passes them."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Supervision()
        self.now = 0.0
        self.timers: dict[str, float] = {}
        self.running: set[str] = set()
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.stop_at: float | None = None
        self.steps: list[type] = []
        for helper in HELPERS:
            self.feed(Wanted(helper))

    def feed(self, what: Input) -> None:
        for effect in self.machine.handle(what, self.now):
            self.perform(effect)

    def perform(self, effect: Effect) -> None:
        match effect:
            case StartHelper(helper):
                assert self.stop_at is None
                assert helper not in self.running
                self.running.add(helper)
                self.starts[helper].append(self.now)
            case SetTimer(key, at):
                assert at >= self.now
                self.timers[key] = at
            case AskToEnd() | Terminate() | Kill() | Finish():
                self.steps.append(type(effect))

    @rule(seconds=st.sampled_from([0.05, 0.5, 3.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [(at, key) for key, at in self.timers.items() if at <= end]:
            self.now, key = min(due)
            del self.timers[key]
            self.feed(TimerFired(key))
        self.now = end

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def helper_ends(self, data: st.DataObject) -> None:
        helper = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(helper)
        self.feed(HelperEnded(helper))

    @rule(chance=st.integers(0, 5))
    def stop_is_wanted(self, chance: int) -> None:
        if chance == 0:
            if self.stop_at is None:
                self.stop_at = self.now
            self.feed(StopWanted())

    @precondition(lambda self: self.stop_at is not None)
    @rule()
    def everything_is_gone(self) -> None:
        self.feed(AllGone())

    @invariant()
    def starts_are_few(self) -> None:
        for starts in self.starts.values():
            recent = [at for at in starts if self.now - at < WINDOW_S]
            assert len(recent) <= MAX_STARTS

    @invariant()
    def a_helper_that_ended_will_be_started(self) -> None:
        if self.stop_at is None:
            assert all(helper in self.running or helper in self.timers for helper in HELPERS)

    @invariant()
    def a_stop_takes_its_steps_in_order_and_ends(self) -> None:
        asked = [step for step in self.steps if step is not Finish]
        assert asked == [AskToEnd, Terminate, Kill][: len(asked)]
        assert self.steps.count(Finish) <= 1
        if self.stop_at is not None and self.now - self.stop_at > ASK_S + TERMINATE_S + KILL_S:
            assert Finish in self.steps
        if self.stop_at is not None and Finish not in self.steps:
            assert STOP_TIMER in self.timers


TestSupervision = SupervisionMachine.TestCase
TestSupervision.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
