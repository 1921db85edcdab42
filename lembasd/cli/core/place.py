"""Where a person's screen stands in a terminal's output: what to say has been shown, and where to go on from."""

from collections import deque

from msgspec import Struct


class _Piece(Struct):
    """Output that waits to be written, and the offset after it."""

    left: int
    end: int


class Place:
    """Counts what came and what was written. What came is still written when the hub is gone, so the next one goes on
    after it."""

    def __init__(self) -> None:
        #: the offset after what came last; None: nothing came yet
        self.end: int | None = None
        self._waiting: deque[_Piece] = deque()

    def came(self, offset: int, count: int) -> None:
        """A piece of output. Its own offset counts: an interrupt leaves some out, a redraw begins with what is none."""
        self.end = offset + count
        self._waiting.append(_Piece(count, self.end))

    def begins(self, offset: int) -> None:
        """The hub's terminal begins or goes on there."""
        self.end = offset

    def written(self, count: int) -> int | None:
        """So many bytes more are on the screen; the offset to acknowledge, None when no piece was finished by them."""
        shown: int | None = None
        while self._waiting and self._waiting[0].left <= count:
            piece = self._waiting.popleft()
            count -= piece.left
            shown = piece.end
        if self._waiting:
            self._waiting[0].left -= count
        return shown
