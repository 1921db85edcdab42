"""The `@path` mentions of what a person typed (link.md, session/prompt): which paths they may name, and which lines.

A space or a # of a name is written with a backslash before it; an unescaped # with digits is a range of lines. Whether
a path is there, and may be attached, is not known here: a word may end in punctuation that is none of the name's, so it
has several readings.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

#: readings of one word: so many marks may follow a name
_MAX_MARKS: Final = 4
#: characters of a word; a longer one is no path
_MAX_WORD: Final = 4096
#: an @ that begins a word, or follows what opens one
_WORD: Final = re.compile(r"""(?<![^\s(\[{<"'`,;:])@((?:\\.|[^\s\\])+)""", re.DOTALL)
_RANGE: Final = re.compile(r"#(\d{1,9})(?:(-)(\d{1,9})?)?\Z")
_ESCAPE: Final = re.compile(r"\\([^\w])", re.DOTALL)
_MARKS: Final = ".,;:!?)]}>\"'`"


class Mention(Struct, frozen=True):
    """One reading: a path, and the lines that are meant, from 1 on (`last` None: to the end); None for all of it."""

    path: str
    first: int | None = None
    last: int | None = None


def mentions(text: str) -> Iterator[tuple[Mention, ...]]:
    """The readings of each word that may be a mention, in their order; of those of one word the first that is there counts."""
    for match in _WORD.finditer(text):
        word = match[1]
        if len(word) <= _MAX_WORD:
            yield tuple(_readings(word))


def _readings(word: str) -> Iterator[Mention]:
    yield _read(word)
    for _ in range(_MAX_MARKS):
        # a mark with a backslash before it is the name's own
        if len(word) == 1 or word[-1] not in _MARKS or _is_escaped(word):
            break
        word = word[:-1]
        yield _read(word)


def _is_escaped(word: str) -> bool:
    """Whether a word's last character has a backslash before it."""
    before = word[:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _read(word: str) -> Mention:
    found = _RANGE.search(word)
    if found is None or not found.start() or _is_escaped(word[: found.start() + 1]):
        return Mention(_unescaped(word))
    path, first = _unescaped(word[: found.start()]), max(1, int(found[1]))
    if found[2] is None:
        return Mention(path, first, first)
    if found[3] is None:
        return Mention(path, first)
    last = max(1, int(found[3]))
    return Mention(path, min(first, last), max(first, last))


def _unescaped(word: str) -> str:
    return _ESCAPE.sub(r"\1", word)
