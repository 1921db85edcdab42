"""The last of what a terminal showed."""

from collections import deque
from typing import Final

#: a full reset of the terminal: whoever attaches starts from an empty screen, whatever came before on its connection
RESET: Final = b"\x1bc"
#: how far a cut scrollback looks for a line to begin with; a longer line is cut where it is
MAX_TORN_LINE_BYTES: Final = 4096


class Scrollback:
    """Bounded: over `bound` bytes the oldest are forgotten."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._torn = False

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        while self._held - len(self._chunks[0]) >= self._bound:
            self._held -= len(self._chunks.popleft())
            self._torn = True

    def replay(self) -> bytes:
        """What shows a newcomer the terminal as it is; b"" when nothing was ever shown.

        What was cut begins with a whole line where one is near, not in the middle of a character or a sequence.
        """
        data = b"".join(self._chunks)
        if not data:
            return b""
        torn = self._torn or len(data) > self._bound
        data = data[-self._bound :]
        if torn:
            line = data.find(b"\n", 0, MAX_TORN_LINE_BYTES)
            data = data[line + 1 :]
        return RESET + data
