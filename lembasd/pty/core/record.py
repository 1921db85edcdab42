"""The last of what a terminal showed, by offset: the number of output bytes before it. Bounded; the oldest are forgotten."""

from collections import deque
from itertools import takewhile
from typing import Final, NamedTuple

from lembasd.protocol.limits import KIB, MIB
from lembasd.pty.core.modes import Modes

#: what is kept of a terminal's output
RECORD_BYTES: Final = 4 * MIB
#: what is given to a newcomer of it, and to a viewer that fell behind
REDRAW_BYTES: Final = 256 * KIB
#: how far a redraw looks for a line to begin with; a longer line is cut where it is
MAX_TORN_LINE_BYTES: Final = 4 * KIB
#: a full reset of the terminal: whoever begins in the middle begins with an empty screen
RESET: Final = b"\x1bc"
#: output is kept in pieces of about so many bytes
PIECE_BYTES: Final = 64 * KIB
#: pieces that are kept: one for each size, so that a storm of resizes with a byte between them forgets the oldest
MAX_PIECES: Final = 1000


class Size(NamedTuple):
    cols: int
    rows: int


class _Piece:
    """Output that was written for one size of the terminal."""

    __slots__ = ("data", "size", "start")

    def __init__(self, start: int, size: Size) -> None:
        self.start = start
        self.size = size
        self.data = bytearray()

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Record:
    """What came since `start`. What is read ends where the terminal's size changes."""

    def __init__(self, size: Size, bound: int = RECORD_BYTES) -> None:
        self._bound = bound
        self._pieces: deque[_Piece] = deque([_Piece(0, size)])
        self._modes = Modes()

    @property
    def start(self) -> int:
        return self._pieces[0].start

    @property
    def end(self) -> int:
        return self._pieces[-1].end

    def add(self, data: bytes) -> None:
        """Keep what was written, and forget what is too much."""
        last = self._pieces[-1]
        if len(last.data) + len(data) > PIECE_BYTES and last.data:
            last = _Piece(last.end, last.size)
            self._pieces.append(last)
        last.data += data
        while self.end - self._pieces[0].end >= self._bound or len(self._pieces) > MAX_PIECES:
            self._modes.feed(bytes(self._pieces.popleft().data))

    def resize(self, size: Size) -> None:
        """What comes from now on is written for another size."""
        last = self._pieces[-1]
        if not last.data:
            last.size = size
        elif last.size != size:
            self._pieces.append(_Piece(last.end, size))

    def read(self, offset: int, most: int) -> tuple[bytes, Size]:
        """Up to `most` bytes from `offset` on, which is within the record, and the size they were written for."""
        found: list[bytes] = []
        size = self._pieces[-1].size
        for piece in self._from(offset):
            if found and piece.size != size:
                break
            size = piece.size
            at = offset - piece.start
            part = bytes(memoryview(piece.data)[at : at + most])
            found.append(part)
            offset += len(part)
            most -= len(part)
            if not most:
                break
        return (found[0] if len(found) == 1 else b"".join(found)), size

    def before(self, offset: int, most: int) -> bytes:
        """The last bytes before `offset`, whatever size they were written for."""
        start = max(self.start, offset - most)
        pieces = self._from(start)
        whole = b"".join(bytes(piece.data) for piece in pieces)
        first = pieces[0].start if pieces else start
        return whole[start - first : offset - first]

    def _from(self, offset: int) -> list[_Piece]:
        """The pieces that hold something after `offset`. Viewers read at the end: that is where it is looked for."""
        pieces = list(takewhile(lambda piece: piece.end > offset, reversed(self._pieces)))
        pieces.reverse()
        return pieces

    def redraw(self) -> tuple[int, bytes]:
        """Where a redraw begins, and what puts the terminal into the state that it was in there.

        What was cut begins with a whole line where one is near, not in the middle of a character or a sequence.
        """
        at = max(self.start, self.end - REDRAW_BYTES)
        if at:
            near, _ = self.read(at, MAX_TORN_LINE_BYTES)
            at += near.find(b"\n") + 1
        modes = self._modes.copy()
        for piece in self._pieces:
            if piece.start >= at:
                break
            modes.feed(bytes(memoryview(piece.data)[: at - piece.start]))
        return at, RESET + modes.sequence()
