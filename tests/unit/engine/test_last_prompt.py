"""Which prompt an undo takes back."""

from lembasd.engine.native.core.last_prompt import LastPrompt, last_prompt
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Note,
    Prompted,
    Rewound,
    TurnAccepted,
    TurnStarted,
)


def turn(turn_id: str, *calls: str) -> list[AnyRecord]:
    made = [Call(id=one, server_id=one, name="write", arguments="{}") for one in calls]
    return [
        TurnAccepted(turn_id=turn_id, text=f"do {turn_id}"),
        TurnStarted(turn_id=turn_id),
        Note(text="on"),
        Assistant(turn_id=turn_id, message_id="m", model="m", calls=made),
    ]


def test_the_last_that_stands_is_taken_with_its_calls() -> None:
    records = [*turn("t1", "a"), *turn("t2", "b", "c"), Prompted(turn_id="t2", text="x")]
    assert last_prompt(records) == LastPrompt("t2", "do t2", frozenset({"b", "c"}))
    records.append(Rewound(turns=["t2"]))
    assert last_prompt(records) == LastPrompt("t1", "do t1", frozenset({"a"}))


def test_commands_that_no_model_was_given_and_prompts_that_wait_do_not_count() -> None:
    action: list[AnyRecord] = [TurnStarted(turn_id="u"), Prompted(turn_id="u", action=True)]
    assert last_prompt([]) is None
    assert last_prompt([*action, TurnAccepted(turn_id="q", text="later")]) is None
    assert last_prompt([TurnStarted(turn_id="t1"), *action]) == LastPrompt("t1", "", frozenset())
