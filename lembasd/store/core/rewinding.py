"""Taking turns back: which turns go, and what of a journal's records still stands after it."""

from collections.abc import Iterable

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
    TurnEnded,
    TurnStarted,
)

#: what was said in a turn; everything else of its time holds for the session and stays
_SAID = (TurnStarted, Assistant, Note, SteerAsked, Steered, ToolStarted, ToolResult)


def reverted_by(records: Iterable[AnyRecord], turn_id: str) -> list[str] | None:
    """The turns that go with a rewind to `turn_id`: it and every later one, in their order.

    [] when it was taken back before; None when the session never had it, or it has not ended.
    """
    order: list[str] = []
    gone: set[str] = set()
    for record in records:
        match record:
            case TurnStarted() | TurnEnded():
                # one that ended without having started has its place where it ended
                if record.turn_id not in order:
                    order.append(record.turn_id)
            case Rewound(turns=turns):
                gone.update(turns)
            case _:
                pass
    if turn_id not in order:
        return None
    if turn_id in gone:
        return []
    return [one for one in order[order.index(turn_id) :] if one not in gone]


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
