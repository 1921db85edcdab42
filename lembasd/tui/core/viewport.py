"""Which lines of a long list are on the screen, when only what is seen has ever been measured.

The place is kept as an item and a line of it, not as a number of lines from the start: what lies outside may have any
height, and may change it, without anything moving.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

#: lines of one item, by its index
Height = Callable[[int], int]
_FIRST: Final = 0


class Piece(Struct, frozen=True):
    """Lines `first` to `first + count` of an item."""

    index: int
    first: int
    count: int


class Viewport:
    """`follows`: it stays at the end, whatever is added."""

    def __init__(self) -> None:
        self.follows = True
        self._index = 0
        self._line = 0

    @property
    def top(self) -> tuple[int, int]:
        """The item at the top, and the line of it."""
        return self._index, self._line

    def pieces(self, count: int, rows: int, height: Height) -> list[Piece]:
        """What is on a screen of `rows` lines, from its top; less where there is no more."""
        if self.follows:
            self._to_end(count, rows, height)
        pieces: list[Piece] = []
        index, line = self._place(count, height)
        while index < count and rows > 0:
            seen = min(height(index) - line, rows)
            if seen > 0:
                pieces.append(Piece(index, line, seen))
                rows -= seen
            index, line = index + 1, 0
        return pieces

    def scroll(self, by: int, count: int, rows: int, height: Height) -> None:
        """Move by so many lines, down or (below zero) up; at the end it follows."""
        index, line = self._place(count, height)
        self.follows = False
        line += by
        while line < 0 and index > 0:
            index -= 1
            line += height(index)
        while index < count and line >= height(index):
            line -= height(index)
            index += 1
        self._index, self._line = index, max(0, line)
        self._stop_at_end(count, rows, height)

    def to_start(self) -> None:
        self.follows, self._index, self._line = False, _FIRST, 0

    def to_end(self) -> None:
        self.follows = True

    def show(self, index: int, count: int, rows: int, height: Height) -> None:
        """Have the beginning of an item on the screen, moving as little as that takes."""
        seen = [one.index for one in self.pieces(count, rows, height) if one.first == 0]
        if index in seen:
            return
        self.follows = False
        self._index, self._line = index, 0
        self._stop_at_end(count, rows, height)

    def place(self, count: int) -> tuple[float, float]:
        """About where of the whole the top is, from 0 to 1, and whether it is all: reckoned by items."""
        if not count:
            return 0.0, 1.0
        return min(1.0, self._index / count), 1.0 / count

    def _place(self, count: int, height: Height) -> tuple[int, int]:
        """The place, where items were taken away or became shorter."""
        if self._index >= count:
            return max(0, count - 1), 0
        return self._index, min(self._line, max(0, height(self._index) - 1))

    def _to_end(self, count: int, rows: int, height: Height) -> None:
        index, left = count, rows
        while index > 0 and left > 0:
            index -= 1
            left -= height(index)
        self._index, self._line = index, max(0, -left)

    def _stop_at_end(self, count: int, rows: int, height: Height) -> None:
        """Not beyond the end: there it follows."""
        left = rows + self._line
        for index in range(self._index, count):
            left -= height(index)
            if left < 0:
                return
        self.follows = True
