"""What is left of a journal after turns were taken back."""

from lembasd.engine.native.core.context import Conversation
from lembasd.protocol.lembas import AssistantTurn, AttachmentInfo, UserTurn
from lembasd.store.core.fold import fold
from lembasd.store.core.rewinding import standing
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Attachment,
    Compacted,
    Learned,
    Prompted,
    Rewound,
    SessionNote,
    SteerAsked,
    Steered,
    TurnAccepted,
    TurnEnded,
    TurnStarted,
)


def turn(turn_id: str, *between: AnyRecord) -> list[AnyRecord]:
    return [
        TurnAccepted(turn_id=turn_id, text=f"do {turn_id}"),
        TurnStarted(turn_id=turn_id),
        *between,
        Assistant(turn_id=turn_id, message_id="m", model="m", text=f"did {turn_id}"),
        TurnEnded(turn_id=turn_id, stop_reason="end_turn"),
    ]


def said(records: list[AnyRecord]) -> list[str]:
    return [str(one["content"]) for one in Conversation(records).messages()[1:]]


def test_a_turn_that_was_taken_back_is_in_no_conversation_and_no_history() -> None:
    steered: list[AnyRecord] = [SteerAsked(text="also"), Steered(texts=["also"])]
    records = [*turn("t1"), *turn("t2", *steered), Rewound(turns=["t2"], results=7), *turn("t3")]
    assert said(records) == ["do t1", "did t1", "do t3", "did t3"]
    assert fold(records).history == [
        UserTurn("do t1", "t1"),
        AssistantTurn("did t1", "", []),
        UserTurn("do t3", "t3"),
        AssistantTurn("did t3", "", []),
    ]
    assert Conversation(records).results == 7
    assert fold(records).ledger.last_done is not None


def test_what_was_learnt_and_noted_in_it_for_the_session_stays() -> None:
    note, of_turn = SessionNote(text="n"), SessionNote(text="own", turn_id="t1")
    learnt = Learned(fact="f")
    records = [*turn("t1", learnt, note, of_turn), Rewound(turns=["t1"])]
    kept = standing(records)
    assert (learnt in kept, note in kept, of_turn in kept) == (True, True, False)
    assert said([*records, *turn("t2")]) == ["<session-note>n</session-note>\n\ndo t2", "did t2"]


def test_a_summary_stays_without_the_task_of_the_turn() -> None:
    records = [
        *turn("t1"),
        *turn("t2", Compacted(summary="s", task="do t2")),
        Rewound(turns=["t2"]),
    ]
    assert [one for one in standing(records) if isinstance(one, Compacted)] == [
        Compacted(summary="s")
    ]


def test_what_a_prompt_was_made_into_goes_with_it() -> None:
    made = Prompted(turn_id="t2", text="all of it", task="it")
    assert "all of it" in said([*turn("t1"), *turn("t2", made)])
    assert said([*turn("t1"), *turn("t2", made), Rewound(turns=["t2"])]) == ["do t1", "did t1"]


def test_a_journal_in_which_nothing_was_taken_back_stands_as_it_is() -> None:
    records = turn("t1")
    assert standing(records) is records


def test_history_tells_what_a_prompt_brought() -> None:
    brought = [Attachment("a", "text/plain", 1, "1-a", "text")]
    records: list[AnyRecord] = [
        TurnAccepted(turn_id="t1", text="x", attachments=brought),
        TurnStarted(turn_id="t1"),
    ]
    assert fold(records).history == [UserTurn("x", "t1", [AttachmentInfo("a", "text/plain", 1)])]
