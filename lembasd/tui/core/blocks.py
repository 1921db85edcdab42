"""A growing Markdown text as blocks that are drawn one by one: what is finished is drawn once, whatever comes after it.

A block ends at an empty line that something at the left margin follows, and at a fence. A long piece of code is several
blocks of one language. However the text was cut into pieces, the blocks are the same.
"""

import re
from typing import Final

from msgspec import Struct

#: lines of one block of code; the next goes on, so that a long listing costs as little for a line as a short one
MAX_CODE_LINES: Final = 80
#: the same of prose without an empty line
MAX_PROSE_LINES: Final = 200
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*")
#: a line that may still become a fence is not shown
_MAYBE_FENCE: Final = re.compile(r" {0,3}(?:`{2,}|~{2,})[^`\n]*")


class Block(Struct, frozen=True):
    """`language` None: Markdown; "" or a name: code of it. `goes_on`: the block before is the same listing."""

    text: str
    language: str | None = None
    goes_on: bool = False


class Blocks:
    """The blocks of one text. `finished` only ever grows."""

    def __init__(self) -> None:
        self.finished: list[Block] = []
        self._open = ""
        self._lines: list[str] = []
        #: of the listing that is open: what its fence begins with, and its language
        self._fence = ""
        self._language = ""
        self._goes_on = False
        self._after_empty = False

    def feed(self, text: str) -> None:
        """Take the next piece."""
        *lines, self._open = (self._open + text).split("\n")
        for line in lines:
            if self._fence:
                self._take_code(line)
            else:
                self._take_prose(line)

    @property
    def last(self) -> Block | None:
        """The block that is not finished, as far as it came."""
        lines = list(self._lines)
        shown = self._open
        if shown and (not _MAYBE_FENCE.fullmatch(shown) or self._is_code_like_fence(shown)):
            lines.append(shown)
        text = "\n".join(lines)
        if self._fence:
            return Block(text, self._language, self._goes_on) if lines else None
        return Block(text) if text.strip() else None

    def all(self) -> list[Block]:
        """Every block there is now."""
        last = self.last
        return self.finished if last is None else [*self.finished, last]

    def _is_code_like_fence(self, line: str) -> bool:
        """Whether a line within a listing only looks as if it might close it."""
        return bool(self._fence) and not line.strip().startswith(self._fence[0] * 2)

    def _take_code(self, line: str) -> None:
        bare = line.strip()
        if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
            if self._lines:
                self.finished.append(Block("\n".join(self._lines), self._language, self._goes_on))
            self._lines, self._fence, self._goes_on = [], "", False
            return
        self._lines.append(line)
        if len(self._lines) >= MAX_CODE_LINES:
            self.finished.append(Block("\n".join(self._lines), self._language, self._goes_on))
            self._lines, self._goes_on = [], True

    def _take_prose(self, line: str) -> None:
        fence = _FENCE.fullmatch(line)
        if fence is not None:
            self._end_prose()
            self._fence, self._language = fence[1], fence[2].lower()
            return
        if not line.strip():
            self._after_empty = True
            self._lines.append("")
            return
        if (self._after_empty and not line[0].isspace()) or len(self._lines) >= MAX_PROSE_LINES:
            self._end_prose()
        self._after_empty = False
        self._lines.append(line)

    def _end_prose(self) -> None:
        text = "\n".join(self._lines).strip("\n")
        if text:
            self.finished.append(Block(text))
        self._lines, self._after_empty = [], False
