"""Which turns a rewind takes back, and what of a journal stands after it."""

import pytest

from lembasd.engine.native.core.context import Conversation
from lembasd.protocol.lembas import AssistantTurn, UserTurn
from lembasd.store.core.fold import fold
from lembasd.store.core.rewinding import reverted_by, standing
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Compacted,
    Created,
    ModeSet,
    Note,
    Rewound,
    SessionNote,
    Steered,
    SystemPrompt,
    ToolResult,
    TurnAccepted,
    TurnEnded,
    TurnStarted,
)

BEGUN: list[AnyRecord] = [
    Created(session_id="ses_x", root="/project", mode="edit", model="m"),
    SystemPrompt(text="S", instructions={"AGENTS.md": "one"}, context={"library": "old"}),
]


def accepted(name: str) -> TurnAccepted:
    return TurnAccepted(turn_id=name, text=f"do {name}")


def said(name: str, *calls: Call) -> Assistant:
    return Assistant(
        turn_id=name, message_id=f"m{name}", model="m", text=f"did {name}", calls=list(calls)
    )


def turn(name: str, *between: AnyRecord) -> list[AnyRecord]:
    end = TurnEnded(turn_id=name, stop_reason="end_turn")
    return [accepted(name), TurnStarted(turn_id=name), *between, said(name), end]


def contents(records: list[AnyRecord]) -> list[str]:
    return [one["content"] for one in Conversation(records).messages()]


def history(records: list[AnyRecord]) -> list[str]:
    return [one.text for one in fold(records).history]


THREE = [*BEGUN, *turn("t1"), *turn("t2"), *turn("t3")]


@pytest.mark.parametrize(
    ("name", "gone"),
    [("t1", ["t1", "t2", "t3"]), ("t2", ["t2", "t3"]), ("t3", ["t3"]), ("t9", None)],
)
def test_a_turn_goes_with_every_later_one(name: str, gone: list[str] | None) -> None:
    assert reverted_by(THREE, name) == gone


def test_a_turn_that_waits_is_none_that_the_session_has_had() -> None:
    assert reverted_by([*THREE, accepted("t4")], "t4") is None


def test_a_turn_that_was_taken_back_is_not_counted_again() -> None:
    records = [*THREE, Rewound(turns=["t2", "t3"]), *turn("t4")]
    assert reverted_by(records, "t2") == []
    assert reverted_by(records, "t1") == ["t1", "t4"]


def test_conversation_and_history_go_on_from_before_it() -> None:
    records = [*THREE, Rewound(turns=["t2", "t3"]), *turn("t4")]
    assert contents(records) == ["S", "do t1", "did t1", "do t4", "did t4"]
    assert history(records) == ["do t1", "did t1", "do t4", "did t4"]
    # no id runs twice: what was answered stays answered
    assert [one.turn_id for one in fold(records).ledger.done()] == ["t1", "t2", "t3", "t4"]


def test_without_a_rewind_the_records_are_what_they_are() -> None:
    assert standing(THREE) is THREE


def test_everything_that_was_said_in_it_goes_and_what_holds_for_the_session_stays() -> None:
    call = Call(id="c1", server_id="s1", name="read", arguments="{}", args={})
    between: list[AnyRecord] = [
        SessionNote(text="AGENTS.md has changed", turn_id="t2", instructions={"AGENTS.md": "two"}),
        said("t2", call),
        ToolResult(call_id="c1", result_id="#0001", output="x"),
        ModeSet(mode="plan"),
        SessionNote(text="the mode is plan"),
        Note(text="go on"),
        Steered(texts=["in French"]),
    ]
    records = [*BEGUN, *turn("t1"), *turn("t2", *between), Rewound(turns=["t2"], results=1)]
    conversation = Conversation([*records, *turn("t3")])
    assert [one["content"] for one in conversation.messages()] == [
        "S",
        "do t1",
        "did t1",
        "<session-note>the mode is plan</session-note>\n\ndo t3",
        "did t3",
    ]
    # the files are compared with what the model knows now
    assert conversation.instructions == {"AGENTS.md": "one"}
    assert conversation.pieces == {"library": "old"}
    # an id that was given once names one result for ever
    assert conversation.results == 1
    assert fold(records).mode == "plan"
    assert history(records) == ["do t1", "did t1"]


def test_what_the_system_prompt_was_made_in_stays_when_the_first_turn_goes() -> None:
    begun = [BEGUN[0], accepted("t1"), TurnStarted(turn_id="t1"), BEGUN[1], said("t1")]
    records = [*begun, TurnEnded(turn_id="t1", stop_reason="end_turn"), Rewound(turns=["t1"])]
    assert contents(records) == ["S"]
    assert history(records) == []


def test_a_turn_in_a_summary_stays_in_it_and_its_task_goes() -> None:
    summed = Compacted(summary="all", task="do t2")
    records = [*BEGUN, *turn("t1"), *turn("t2", said("t2"), summed), *turn("t3")]
    assert reverted_by(records, "t1") == ["t1", "t2", "t3"]
    (_, summary) = contents([*records, Rewound(turns=["t2", "t3"])])
    assert "all" in summary
    assert "do t2" not in summary
    (_, summary) = contents([*records, Rewound(turns=["t1", "t2", "t3"])])
    assert "all" in summary
    assert history([*records, Rewound(turns=["t2", "t3"])]) == ["do t1", "did t1"]


def test_a_prompt_that_was_cancelled_while_another_ran_goes_alone_or_with_what_follows() -> None:
    cancelled: list[AnyRecord] = [
        accepted("t2"),
        TurnEnded(turn_id="t2", stop_reason="cancelled"),
    ]
    records = [*BEGUN, *turn("t1", *cancelled), *turn("t3")]
    assert reverted_by(records, "t2") == ["t2", "t3"]
    after = [*records, Rewound(turns=["t2", "t3"])]
    assert fold(after).history == [
        UserTurn(text="do t1", turnId="t1"),
        AssistantTurn(text="did t1", reasoning="", tools=[]),
    ]
    assert contents(after) == ["S", "do t1", "did t1"]
