"""Each tool call has exactly one result before the next model request, cancel included."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.engine.native.core.turn import (
    AskCancelled,
    AskModel,
    Begin,
    CallEnded,
    CallPlan,
    CancelCame,
    Effect,
    Failed,
    Finish,
    GiveResult,
    Limits,
    Replied,
    RunCalls,
    SteerCame,
    StopWork,
    TakeSteers,
    Tell,
    TurnMachine,
)
from lembasd.store.records import TurnError

MAX_STEPS = 4
BUDGET = 10


class Turns(RuleBasedStateMachine):
    """Plays the runner: what is asked and what runs ends in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = TurnMachine(Limits(MAX_STEPS, empty=1, cut=1, output_tokens=BUDGET))
        self.tokens = 0
        self.waiting = 0
        self.calls: dict[str, CallPlan] = {}
        self.results: dict[str, int] = {}
        self.order: list[str] = []
        self.running: set[str] = set()
        self.asking = False
        self.begun = False
        self.cancelled = False
        self.steps = 0
        self.words: list[str] = []
        self.finish: Finish | None = None

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert self.finish is None, "nothing comes after the end"
            match effect:
                case AskModel(step):
                    self.steps += 1
                    assert step == self.steps <= MAX_STEPS
                    assert not self.cancelled
                    self.all_answered()
                    assert not self.waiting, "nothing said before a request is kept from it"
                    self.asking = True
                case RunCalls(call_ids):
                    assert not self.running
                    assert not self.cancelled
                    assert all(self.calls[one].problem is None for one in call_ids)
                    assert len(call_ids) == 1 or all(self.calls[one].parallel for one in call_ids)
                    self.running = set(call_ids)
                    self.order += call_ids
                case GiveResult(call_id):
                    self.answer(call_id)
                    self.order.append(call_id)
                case Tell(word):
                    assert not self.cancelled
                    self.words.append(word)
                case TakeSteers():
                    assert not self.cancelled
                    assert self.waiting
                    self.waiting = 0
                case StopWork():
                    assert self.asking or self.running
                case Finish():
                    self.all_answered()
                    self.finish = effect

    def answer(self, call_id: str) -> None:
        assert call_id in self.calls
        self.results[call_id] = self.results.get(call_id, 0) + 1

    def all_answered(self) -> None:
        assert not self.asking
        assert not self.running
        assert self.results == dict.fromkeys(self.calls, 1)
        assert self.order == list(self.calls), "calls are taken in their order"

    @precondition(lambda self: not self.begun and not self.cancelled)
    @rule()
    def begin(self) -> None:
        self.begun = True
        self.perform(self.turn.handle(Begin()))

    @precondition(lambda self: self.asking)
    @rule(
        kinds=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=4),
        truncated=st.booleans(),
        empty=st.booleans(),
        tokens=st.integers(0, 6),
    )
    def reply(
        self, kinds: list[tuple[bool, bool]], truncated: bool, empty: bool, tokens: int
    ) -> None:
        self.asking = False
        self.tokens += tokens
        plans = [
            CallPlan(f"{self.steps}.{n}", parallel, "wrong" if wrong else None)
            for n, (parallel, wrong) in enumerate(kinds)
        ]
        self.calls.update((plan.call_id, plan) for plan in plans)
        self.perform(self.turn.handle(Replied(plans, truncated, empty and not plans, tokens)))

    @precondition(lambda self: self.asking)
    @rule()
    def fail(self) -> None:
        self.asking = False
        self.perform(self.turn.handle(Failed(TurnError(-32603, "away"))))

    @precondition(lambda self: self.asking and self.cancelled)
    @rule()
    def give_up(self) -> None:
        self.asking = False
        self.perform(self.turn.handle(AskCancelled()))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(call_id)
        self.answer(call_id)
        self.perform(self.turn.handle(CallEnded(call_id)))

    @rule()
    def steer(self) -> None:
        self.waiting += self.finish is None
        self.perform(self.turn.handle(SteerCame()))

    @precondition(lambda self: self.begun)
    @rule()
    def cancel(self) -> None:
        self.cancelled = self.cancelled or self.finish is None
        self.perform(self.turn.handle(CancelCame()))

    @invariant()
    def never_stuck(self) -> None:
        """A turn that has begun waits for something, or is over."""
        if self.begun:
            assert self.asking or self.running or self.finish is not None
        assert self.turn.finished == (self.finish is not None)

    @invariant()
    def each_word_is_said_as_often_as_it_may(self) -> None:
        assert all(self.words.count(word) <= 1 for word in self.words)
        assert {"last_step", "budget"} - set(self.words), "it is told that it is the last once"
        if self.steps == MAX_STEPS:
            assert {"last_step", "budget"} & set(self.words)
        if "budget" in self.words:
            assert self.tokens >= BUDGET

    @invariant()
    def ends_one_way(self) -> None:
        if self.finish is not None:
            if self.finish.stop_reason == "end_turn":
                assert not self.waiting, "a turn that may go on takes in what was said"
            assert (self.finish.stop_reason is None) != (self.finish.error is None)
            if self.cancelled and self.finish.error is None:
                assert self.finish.stop_reason == "cancelled"


test_each_call_has_exactly_one_result_before_the_next_request = Turns.TestCase
