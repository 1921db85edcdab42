"""What of a session's history is searched, and how words that a person types are asked for in SQLite's FTS5."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from lembasd.protocol.lembas import AssistantTurn, UserTurn

#: characters of one message that are searched: of a longer one (a pasted file) the beginning
MAX_MESSAGE_CHARS: Final = 100_000
_WORD: Final = re.compile(r"\w+")


class Passage(Struct, frozen=True):
    """One message. `turn_id` "": it belongs to no prompt of its own."""

    role: str
    turn_id: str
    text: str


def passages(history: Iterable[UserTurn | AssistantTurn]) -> Iterator[Passage]:
    """What was said, without what tools gave: that is found in the project."""
    turn_id = ""
    for turn in history:
        if isinstance(turn, UserTurn):
            turn_id = turn.turnId or turn_id
        text = turn.text[:MAX_MESSAGE_CHARS]
        if text.strip():
            role = "user" if isinstance(turn, UserTurn) else "assistant"
            yield Passage(role, turn_id, text)


def query(words: str) -> str:
    """All of these words, the last one as a beginning; "" where there is none."""
    found = _WORD.findall(words)
    quoted = [f'"{one}"' for one in found]
    return " ".join(quoted) + "*" if quoted else ""
