"""Where a person's screen stands in a terminal's output: what to say has been shown, and where to go on from."""

from collections import deque
from typing import Final

from msgspec import Struct

from lembasd.protocol.limits import KIB

#: shown and not yet said so, over which it is said at once: a quarter of what is sent ahead, so that more is on its way by
#: the time the last of it is shown
ACK_BYTES: Final = 64 * KIB
#: how long less than that may wait; an echo for each key would cost as much as the key itself
ACK_S: Final = 0.1


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
        #: the offset before which everything was shown; None: nothing was
        self._shown: int | None = None
        #: bytes of what was shown and not said to have been
        self._unsaid = 0

    def came(self, offset: int, count: int) -> None:
        """A piece of output. Its own offset counts: an interrupt leaves some out, a redraw begins with what is none."""
        self.end = offset + count
        self._waiting.append(_Piece(count, self.end))

    def begins(self, offset: int) -> None:
        """The hub's terminal begins or goes on there."""
        self.end = offset

    def written(self, count: int) -> bool:
        """So many bytes more are on the screen; whether that is to be acknowledged at once."""
        self._unsaid += count
        while self._waiting and self._waiting[0].left <= count:
            piece = self._waiting.popleft()
            count -= piece.left
            self._shown = piece.end
        if self._waiting:
            self._waiting[0].left -= count
        return self._unsaid >= ACK_BYTES

    def acknowledged(self) -> int | None:
        """The offset to acknowledge now; None: no piece was finished since the last time."""
        self._unsaid = 0
        shown, self._shown = self._shown, None
        return shown
