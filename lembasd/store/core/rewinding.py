"""Taking turns back: what of a journal's records still stands after it."""

from msgspec.structs import replace

from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Compacted,
    Note,
    Rewound,
    SessionNote,
    SteerAsked,
    Steered,
    ToolResult,
    ToolStarted,
    TurnStarted,
)

#: what was said in a turn; everything else of its time holds for the session and stays
_SAID = (TurnStarted, Assistant, Note, SteerAsked, Steered, ToolStarted, ToolResult)


def standing(records: list[AnyRecord]) -> list[AnyRecord]:
    """The records without what was said in turns that were taken back later.

    A summary stays, for it holds what was before it, without the task of a turn that is gone.
    """
    gone = {turn for record in records if isinstance(record, Rewound) for turn in record.turns}
    if not gone:
        return records
    kept: list[AnyRecord] = []
    turn_id = ""
    for record in records:
        if isinstance(record, TurnStarted):
            turn_id = record.turn_id
        elif isinstance(record, Rewound):
            turn_id = ""
        if turn_id not in gone:
            kept.append(record)
        elif isinstance(record, Compacted):
            kept.append(replace(record, task=""))
        elif not (isinstance(record, _SAID) or _is_of_turn(record)):
            kept.append(record)
    return kept


def _is_of_turn(record: AnyRecord) -> bool:
    """Whether it is a note that its turn's prompt came with: what it tells is found out anew."""
    return isinstance(record, SessionNote) and bool(record.turn_id)
