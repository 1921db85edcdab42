"""What `/undo` takes back: the last prompt that a model was given and that stands."""

from collections.abc import Iterable

from msgspec import Struct

from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Prompted,
    Rewound,
    TurnAccepted,
    TurnStarted,
)


class LastPrompt(Struct, frozen=True):
    """`text` as it was typed; `calls`: the ids of the calls that were made for it."""

    turn_id: str
    text: str
    calls: frozenset[str]


def last_prompt(records: Iterable[AnyRecord]) -> LastPrompt | None:
    """None when there is none: nothing was said, all of it was taken back, or it were commands alone."""
    texts: dict[str, str] = {}
    started: list[str] = []
    gone: set[str] = set()
    calls: dict[str, set[str]] = {}
    for record in records:
        match record:
            case TurnAccepted():
                texts[record.turn_id] = record.text
            case TurnStarted():
                started.append(record.turn_id)
            case Prompted(action=True):
                gone.add(record.turn_id)
            case Rewound():
                gone.update(record.turns)
            case Assistant():
                made = calls.setdefault(record.turn_id, set())
                made.update(call.id for call in record.calls)
            case _:
                pass
    standing = [turn_id for turn_id in started if turn_id not in gone]
    if not standing:
        return None
    last = standing[-1]
    return LastPrompt(last, texts.get(last, ""), frozenset(calls.get(last, ())))
