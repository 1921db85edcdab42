"""Where a piece of text stands in a file, and the file with another in its place. Never a guess.

What a model gives is looked for exactly, then in a few ways that cannot mean another place; what each of them takes
for the same is said in its docstring. The first way that finds something decides, and it must find one place only.
Whatever the way, lines that old and new begin or end with in common stay as the file has them, byte for byte.
"""

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import accumulate
from typing import Final

from msgspec import Struct

from lembasd.engine.native.core.line_endings import Body, Piece, common_head, plain
from lembasd.engine.native.core.line_match import PLAIN_MARKS, alike, bare, moved, trimmed

#: places that a sentence names; the rest is counted
MAX_NAMED: Final = 5
#: lines of a file, and characters of a line, among which the closest to a line that is not there is looked for
MAX_HINT_LINES: Final = 2000
MAX_HINT_CHARS: Final = 300
_NUMBERED: Final = re.compile(r" *([1-9][0-9]*)\t(.*)", re.DOTALL)


class Edited(Struct, frozen=True):
    """The text after it. `step`: in which way it was found; `lines`: where each place begins, from 1."""

    text: str
    step: str
    lines: list[int]


class Refused(Struct, frozen=True):
    """Nothing was changed; `reason` is a sentence for the model."""

    reason: str


def edited(
    text: str, old: str, new: str, name: str, *, everywhere: bool = False
) -> Edited | Refused:
    """`text` (with its own line endings) with `new` for `old`, which stands in it once, or `everywhere`."""
    if not old:
        return Refused("`old` is empty; use write for a whole file")
    if old == new:
        return Refused("`old` and `new` are the same: nothing to change")
    body, wanted, given = Body(text), plain(old), plain(new)
    if wanted == given:
        return Refused(
            f"`old` and `new` differ in their line endings alone, and {name} keeps its own"
        )
    step, found = _first_found(body.text, wanted, given)
    if not found:
        return Refused(_not_there(body.text, wanted, name))
    lines = [body.text.count("\n", 0, piece.start) + 1 for piece in found[: MAX_NAMED + 1]]
    if len(found) > 1 and not everywhere:
        return Refused(_several(len(found), lines, name))
    if everywhere:
        found = list(_apart(found))
        lines = [body.text.count("\n", 0, piece.start) + 1 for piece in found]
    if step == "exact" and body.is_crlf and "\n" in wanted and "\r\n" not in old:
        step = "line endings"
    return Edited(body.with_pieces(found), step, lines)


def _first_found(text: str, old: str, new: str) -> tuple[str, list[Piece]]:
    for step, find in _STEPS.items():
        if found := find(text, old, new):
            return step, found
    return "", []


def _apart(found: list[Piece]) -> Iterator[Piece]:
    """Those that do not lie over one before them."""
    end = 0
    for piece in found:
        if piece.start >= end:
            yield piece
            end = piece.end


# ── the ways ────────────────────────────────────────────────────────────────────────────────────

Finder = Callable[[str, str, str], list[Piece]]


def _exact(text: str, old: str, new: str) -> list[Piece]:
    """Every character is the same, but for \\r\\n and \\n."""
    return [Piece(at, at + len(old), new) for at in _places(text, old)]


def _places(text: str, old: str) -> Iterator[int]:
    """Where it stands, places that lie over one another included: a text that may mean either is not unique."""
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)


def _line_numbers(text: str, old: str, new: str) -> list[Piece]:
    """Every line begins with its number, as read shows it, and stands at that number."""
    lines = _Lines(text, old, new)
    numbered = [_NUMBERED.fullmatch(line) for line in lines.old]
    first = int(numbered[0][1]) if numbered[0] is not None else 0
    shown = [one[2] for number, one in enumerate(numbered, first) if one and int(one[1]) == number]
    at = first - 1
    if len(shown) < len(numbered) or lines.file[at : at + len(shown)] != shown:
        return []
    stripped = [one[2] if (one := _NUMBERED.fullmatch(line)) else line for line in lines.new]
    return [lines.piece(at, shown, stripped)]


def _trailing_space(text: str, old: str, new: str) -> list[Piece]:
    """Whole lines that differ in spaces and tabs at their ends alone."""
    lines = _Lines(text, old, new)
    places = alike(lines.file, lines.old, trimmed)
    return [lines.piece(at, lines.old, lines.new) for at in places]


def _indentation(text: str, old: str, new: str) -> list[Piece]:
    """Whole lines that all have the same more, or the same less, of indentation; new ones get it too."""
    lines = _Lines(text, old, new)
    found = []
    for at in alike(lines.file, lines.old, bare):
        both = moved(lines.file[at : at + len(lines.old)], lines.old, lines.new)
        if both is not None:
            found.append(lines.piece(at, *both))
    return found


def _typographic(text: str, old: str, new: str) -> list[Piece]:
    """Quotes, dashes and spaces that differ in their typographic form alone; what old and new share stays the file's."""
    plain_text = "".join(
        text[at : at + 65536].translate(PLAIN_MARKS) for at in range(0, len(text), 65536)
    )
    plain_old = old.translate(PLAIN_MARKS)
    head = common_head(old, new)
    tail = common_head(old[head:][::-1], new[head:][::-1])
    found = []
    for at in _places(plain_text, plain_old):
        kept = text[at : at + len(old)]
        found.append(
            Piece(
                at,
                at + len(old),
                kept[:head] + new[head : len(new) - tail] + kept[len(kept) - tail :],
            )
        )
    return found


_STEPS: Final[dict[str, Finder]] = {
    "exact": _exact,
    "line numbers": _line_numbers,
    "trailing space": _trailing_space,
    "indentation": _indentation,
    "typographic marks": _typographic,
}


class _Lines:
    """The file's lines, and old and new as whole lines: an ending after the last of them is the file's."""

    def __init__(self, text: str, old: str, new: str) -> None:
        self.file = text.split("\n")
        self.old, self.new = old.split("\n"), new.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self.file)]
        self._is_closed = self.old[-1] == "" and len(self.old) > 1
        self._end = ""
        if self._is_closed:
            self.old.pop()
            # a new text without it runs into the next line, as the model wrote it
            if self.new[-1] == "":
                self.new.pop()
                self._end = "\n"

    def piece(self, at: int, old: list[str], new: list[str]) -> Piece:
        """The piece for the file's lines from `at` on; `old` and `new`: what the model meant, line by line."""
        count = len(old)
        there = self.file[at : at + count]
        head = common_head(old, new)
        tail = common_head(old[head:][::-1], new[head:][::-1])
        kept = [*there[:head], *new[head : len(new) - tail], *there[count - tail :]]
        text, end = "\n".join(kept), self._starts[at + count] - 1
        if self._is_closed and at + count < len(self.file):
            end += 1
            text += self._end if kept else ""
        return Piece(self._starts[at], end, text)


# ── what is said of it ──────────────────────────────────────────────────────────────────────────


def _several(count: int, lines: list[int], name: str) -> str:
    several = list(dict.fromkeys(lines))
    named = ", ".join(map(str, several[:MAX_NAMED]))
    more = " and more" if count > MAX_NAMED else ""
    return (
        f"`old` stands in {name} {count} times, at line{'s' if len(several) > 1 else ''} {named}{more}; "
        "give more lines around it, or set replace_all"
    )


def _not_there(text: str, old: str, name: str) -> str:
    said = f"`old` does not stand in {name}; read it again and copy the text exactly"
    at = _closest(text.split("\n"), old)
    if at is None:
        return said
    lines = text.split("\n")[at : at + min(old.count("\n") + 1, MAX_NAMED)]
    shown = "\n".join(f"{n:6}\t{line[:MAX_HINT_CHARS]}" for n, line in enumerate(lines, at + 1))
    return f"{said}. What comes closest:\n{shown}"


def _closest(lines: list[str], old: str) -> int | None:
    """The line that comes closest to the first of `old` that says something."""
    wanted = next((bare(line) for line in old.split("\n") if bare(line)), "")
    stripped = [bare(line) for line in lines]
    if wanted in stripped and wanted:
        return stripped.index(wanted)
    if not wanted or len(lines) > MAX_HINT_LINES or len(wanted) > MAX_HINT_CHARS:
        return None
    short = [line for line in stripped if line and len(line) <= MAX_HINT_CHARS]
    close = get_close_matches(wanted, short, 1, 0.7)
    return stripped.index(close[0]) if close else None
