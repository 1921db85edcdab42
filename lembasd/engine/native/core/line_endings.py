"""A text with its line endings set aside: what is put in the place of a piece leaves all other lines as they were."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_ENDING: Final = re.compile(r"\r?\n")


class Piece(Struct, frozen=True):
    """What shall stand in the place of the characters `start` to `end` of a plain text."""

    start: int
    end: int
    text: str


def plain(text: str) -> str:
    """The text with \\n alone for each line ending; a lone \\r is a character like any other."""
    return text.replace("\r\n", "\n")


class Body:
    """A file's text: `text` is plain, `newline` the ending most of its lines have."""

    def __init__(self, text: str) -> None:
        self.text = plain(text)
        crlf, total = len(text) - len(self.text), self.text.count("\n")
        self.newline = "\r\n" if crlf * 2 > total else "\n"
        self._is_mixed = 0 < crlf < total
        #: of each line, where they differ
        self._endings: list[str] = _ENDING.findall(text) if self._is_mixed else []

    @property
    def is_crlf(self) -> bool:
        """Whether any line ends with \\r\\n."""
        return self._is_mixed or self.newline == "\r\n"

    def with_pieces(self, pieces: Sequence[Piece]) -> str:
        """The text with these in their places (in order, none over another), the other lines byte for byte."""
        changed: list[str] = []
        endings: list[str] = []
        at = line = 0
        for piece in pieces:
            kept = self.text[at : piece.start]
            old = self.text[piece.start : piece.end]
            before = line + kept.count("\n")
            after = before + old.count("\n")
            changed += [kept, piece.text]
            if self._is_mixed:
                endings += self._endings[line:before]
                endings += _aligned(
                    old, piece.text, self._endings[before:after], self._near(before)
                )
            at, line = piece.end, after
        changed.append(self.text[at:])
        text = "".join(changed)
        if not self._is_mixed:
            return text.replace("\n", "\r\n") if self.newline == "\r\n" else text
        endings += self._endings[line:]
        parts = text.split("\n")
        woven = [part + end for part, end in zip(parts, [*endings, ""], strict=True)]
        return "".join(woven)

    def with_text(self, text: str) -> str:
        """A whole new text: lines that stay keep their ending, new ones get that of most."""
        return self.with_pieces([Piece(0, len(self.text), plain(text))])

    def _near(self, line: int) -> str:
        return self._endings[line - 1] if line else self.newline


def _aligned(old: str, new: str, endings: list[str], default: str) -> list[str]:
    """The endings of the new lines: those that begin or end the piece as before keep theirs."""
    before, after = old.split("\n"), new.split("\n")
    count = len(after) - 1
    head = common_head(before[:-1], after[:-1])
    tail = common_head(before[head:-1][::-1], after[head:-1][::-1])
    # a new line gets the ending that most have of those it stands for, or stands among
    among = endings[head : len(endings) - tail] or endings
    usual = Counter(among).most_common(1)[0][0] if among else default
    return endings[:head] + [usual] * (count - head - tail) + endings[len(endings) - tail :]


def common_head(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items both begin with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
