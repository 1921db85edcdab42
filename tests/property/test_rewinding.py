"""Whatever is prompted, cancelled, summed up and taken back: what stands is what was not taken back."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.context import Conversation
from lembasd.store.core.fold import fold
from lembasd.store.core.rewinding import reverted_by
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Compacted,
    Created,
    Rewound,
    SystemPrompt,
    TurnAccepted,
    TurnEnded,
    TurnStarted,
)

STEPS = st.lists(
    st.one_of(
        st.just(("turn", 0)),
        st.just(("cancelled", 0)),
        st.just(("compact", 0)),
        st.tuples(st.just("rewind"), st.integers(0, 20)),
    ),
    max_size=25,
)


def said(name: str) -> Assistant:
    return Assistant(turn_id=name, message_id=name, model="m", text=f"[did {name}]")


@given(STEPS)
def test_history_and_conversation_hold_what_stands(steps: list[tuple[str, int]]) -> None:
    records: list[AnyRecord] = [
        Created(session_id="s", root="/", mode="edit", model="m"),
        SystemPrompt(text="S"),
    ]
    #: the turns in their order, those that stand, and those of them that no summary has
    order: list[str] = []
    standing: list[str] = []
    open_: list[str] = []
    for step, at in steps:
        name = f"t{len(order)}"
        if step == "turn":
            records += [
                TurnAccepted(turn_id=name, text=f"[do {name}]"),
                TurnStarted(turn_id=name),
                said(name),
                TurnEnded(turn_id=name, stop_reason="end_turn"),
            ]
            order.append(name)
            standing.append(name)
            open_.append(name)
        elif step == "cancelled":
            records += [
                TurnAccepted(turn_id=name, text=f"[do {name}]"),
                TurnEnded(turn_id=name, stop_reason="cancelled"),
            ]
            order.append(name)
            standing.append(name)
        elif step == "compact":
            records.append(Compacted(summary="all"))
            open_ = []
        elif order:
            target = order[at % len(order)]
            gone = reverted_by(records, target)
            expected = standing[standing.index(target) :] if target in standing else []
            assert gone == expected
            if gone:
                records.append(Rewound(turns=gone))
            standing = [one for one in standing if one not in expected]
            open_ = [one for one in open_ if one not in expected]
    view = fold(records)
    users = [turn.text for turn in view.history if turn.__struct_config__.tag == "user"]
    assert users == [f"[do {one}]" for one in standing]
    text = "".join(str(one["content"]) for one in Conversation(records).messages())
    for name in order:
        assert (f"[do {name}]" in text) == (name in open_)
    # whatever was taken back, no id runs again
    assert {turn.turn_id for turn in view.ledger.done()} == set(order)
