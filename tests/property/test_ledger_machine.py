"""A turn id runs at most once, whatever dies when, and what it was answered stays its answer.

The session's machine runs against a journal in memory. A crash may come between any two steps, and takes any of the
lines that were not synced with it; then the session is opened again from what is left.
"""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lembasd.protocol.acp import PromptResult
from lembasd.protocol.control import Attached
from lembasd.protocol.limits import TURN_IDS_KEPT
from lembasd.store.core.fold import fold, interrupted
from lembasd.store.core.ledger import Answer, Ledger, Turn, merge
from lembasd.store.records import AnyRecord, TurnAccepted, TurnEnded, TurnStarted
from lembasd.worker.core import effects, inputs
from lembasd.worker.core.about import About
from lembasd.worker.core.session import Session

ABOUT = About("ses_" + "0" * 26, "/project", "m", "default")
answers = st.sampled_from(["end_turn", "cancelled", "max_tokens"]).map(
    lambda reason: Answer(stop_reason=reason)
)


class TurnsMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.lines: list[AnyRecord] = []
        self.synced = 0
        self.clock = 0.0
        self.runs: dict[str, int] = {}
        self.answered: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        view = fold(self.lines)
        for end in interrupted(view):
            view.ledger.end(end.turn_id, Answer(error=end.error), 0.0)
            self.append(end)
        self.steps: list[tuple[str, str, Answer | None]] = []
        self.session = Session(
            ABOUT,
            mode="manual",
            title="T",
            ledger=view.ledger,
            waiting=list(view.waiting.values()),
        )
        self.feed(inputs.HubJoined())
        self.feed(inputs.ClientAttached(Attached(client=1, protocol=3, local=True)))
        self.feed(inputs.SettingsCame("auto", 900.0))

    def append(self, record: AnyRecord) -> None:
        self.lines.append(record)

    def feed(self, what: inputs.Input) -> None:
        self.clock += 1.0
        for effect in self.session.handle(what, self.clock):
            match effect:
                case effects.StoreAccepted(turn_id, text):
                    self.append(TurnAccepted(turn_id=turn_id, text=text))
                    self.steps.append(("accept", turn_id, None))
                case effects.StartTurn(turn_id):
                    self.append(TurnStarted(turn_id=turn_id))
                    self.steps.append(("run", turn_id, None))
                case effects.StoreEnd(turn_id, answer):
                    self.append(
                        TurnEnded(
                            turn_id=turn_id, stop_reason=answer.stop_reason, error=answer.error
                        )
                    )
                    self.steps.append(("end", turn_id, answer))
                case effects.CancelTurn():
                    self.steps = [
                        ("finish", turn, Answer(stop_reason="cancelled"))
                        if step == "finish"
                        else (step, turn, answer)
                        for step, turn, answer in self.steps
                    ]
                case effects.Reply(waiter, result) if isinstance(result, PromptResult):
                    self.answer(waiter.id.decode(), str(result.stopReason))
                case effects.Refuse(waiter, error):
                    if error.data != {"reason": "stopping"}:
                        self.answer(waiter.id.decode(), error.message)
                case _:
                    pass

    def answer(self, turn_id: str, said: str) -> None:
        assert self.answered.setdefault(turn_id, said) == said, "an id was answered differently"

    @rule(turn_id=st.sampled_from(["t1", "t2", "t3"]))
    def prompt(self, turn_id: str) -> None:
        waiter = inputs.Waiter(client=1, request=1, id=turn_id.encode())
        self.feed(inputs.PromptAsked(waiter, turn_id, "text", self.clock))

    @rule(data=st.data(), answer=answers)
    def step(self, data: st.DataObject, answer: Answer) -> None:
        """Something that was under way is done."""
        if not self.steps:
            return
        index = data.draw(st.integers(0, len(self.steps) - 1))
        step, turn_id, said = self.steps.pop(index)
        if step != "finish":
            self.synced = len(self.lines)
        match step:
            case "accept":
                self.feed(inputs.Accepted(turn_id))
            case "run":
                self.runs[turn_id] = self.runs.get(turn_id, 0) + 1
                self.steps.append(("finish", turn_id, answer))
            case "finish":
                self.feed(inputs.TurnFinished(turn_id, said or answer))
            case _:
                self.feed(inputs.EndStored(turn_id, self.clock))

    @rule()
    def cancel(self) -> None:
        self.feed(inputs.CancelAsked())

    @rule()
    def lose_the_hub(self) -> None:
        self.feed(inputs.HubLost())
        self.feed(inputs.HubJoined())
        self.feed(inputs.ClientAttached(Attached(client=1, protocol=3, local=True)))

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        kept = data.draw(st.integers(self.synced, len(self.lines)))
        self.lines = self.lines[:kept]
        self.synced = len(self.lines)
        self.open()

    @rule()
    def stop(self) -> None:
        self.feed(inputs.StopAsked("stopped"))

    @invariant()
    def no_id_ran_twice(self) -> None:
        assert all(count == 1 for count in self.runs.values())
        assert len(fold(self.lines).ledger.running) <= 1


test_turns = TurnsMachine.TestCase

turns = st.builds(
    lambda turn_id, at, ended: (
        Turn(turn_id, at) if ended is None else Turn(turn_id, at, "done", ended[0], ended[1])
    ),
    st.integers(0, TURN_IDS_KEPT + 40).map(str),
    st.floats(0, 50),
    st.none() | st.tuples(answers, st.floats(0, 50)),
)
ledgers = st.lists(turns, max_size=60).map(
    lambda found: Ledger({turn.turn_id: turn for turn in found})
)


@given(ledgers, ledgers)
def test_merging_is_commutative_and_idempotent(one: Ledger, other: Ledger) -> None:
    both = merge(one, other)
    assert both == merge(other, one)
    assert merge(both, both) == both
    assert merge(both, one) == both
    assert merge(one, one).turns == one.turns
    assert set(both.turns) <= set(one.turns) | set(other.turns)
