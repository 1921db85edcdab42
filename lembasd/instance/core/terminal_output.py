"""The last of a terminal's output, who looks at it, and what its device is told has been shown. Pure.

The page counts the bytes that came over the links; the device counts the terminal's output. The two differ by what an
interrupt left out, by redraws, and by what was sent while this instance was not there.
"""

from collections import deque
from typing import Final

from msgspec import Struct

from lembasd.protocol.limits import KIB, MIB

#: output kept of one terminal; a viewer that is further behind is told how much it lost
MAX_OUTPUT_BYTES: Final = 1 * MIB
#: what is kept for a viewer that the device waits for; it is sent little meanwhile, so that more is a broken device
MAX_KEPT_BYTES: Final = 2 * MIB
#: sent to a viewer and not yet said to have been shown; more waits. With what the device sends ahead it is drawn in a
#: moment, so that an interrupt is seen at once
WINDOW_BYTES: Final = 256 * KIB
#: what a redraw begins with: a full reset
RESET: Final = b"\x1bc"


class _Mark(Struct, frozen=True):
    """Where a piece of output ends: as the page counts, as the device does."""

    count: int
    offset: int


class TerminalOutput:
    """`total` bytes came, those from `start` on are kept."""

    def __init__(self) -> None:
        self.start = 0
        self.total = 0
        #: the kept output follows on nothing that is missing: it begins with the terminal, or with a redraw
        self.is_whole = True
        #: where the device's output goes on; None: it does not say
        self.offset: int | None = None
        self._kept = bytearray()
        self._marks: deque[_Mark] = deque()
        self._viewers: dict[int, int] = {}
        self._last_viewer = 0
        self._redraws = False

    # ── what a device says ──────────────────────────────────────────────────────────────────────

    def add(self, data: bytes, offset: int | None = None) -> None:
        """Keep output that stands at `offset` of the terminal's."""
        if offset is not None:
            jumps = self.offset is not None and self.offset != offset
            begins = data.startswith(RESET) and (jumps or self._redraws)
            if begins:
                self._begin_anew()
            # a redraw's beginning is no output
            self.offset = offset if begins else offset + len(data)
        self._kept += data
        self.total += len(data)
        if self.offset is not None:
            self._marks.append(_Mark(self.total, self.offset))
        self._forget_old()

    def redraw_asked(self) -> None:
        """What comes next may begin with an empty screen, where it goes on too."""
        self._redraws = True

    def no_redraw(self) -> None:
        """The device goes on without one."""
        self._redraws = False

    def _begin_anew(self) -> None:
        self._redraws = False
        self._kept.clear()
        self.start, self.is_whole = self.total, True

    def _forget_old(self) -> None:
        start = self.total - MAX_OUTPUT_BYTES
        if self._viewers:
            start = min(start, max(self._viewers.values()))
        start = max(start, self.total - MAX_KEPT_BYTES)
        if start > self.start:
            del self._kept[: start - self.start]
            self.start, self.is_whole = start, False

    # ── what viewers read ───────────────────────────────────────────────────────────────────────

    def read(self, count: int, most: int) -> bytes:
        """Up to `most` bytes of what came after the first `count`, of which none may be forgotten."""
        return bytes(memoryview(self._kept)[count - self.start : count - self.start + most])

    def kept(self) -> bytes:
        """All there is."""
        return bytes(self._kept)

    def look(self, count: int | None) -> tuple[int, int]:
        """A new viewer, that has the first `count` bytes (None: nothing); its number, and where it begins.

        One whose place is not kept begins where it is.
        """
        begins = count if count is not None and self.start <= count <= self.total else self.start
        self._last_viewer += 1
        self._viewers[self._last_viewer] = begins
        return self._last_viewer, begins

    def leave(self, viewer: int) -> None:
        self._viewers.pop(viewer, None)

    def showed(self, viewer: int, count: int) -> None:
        """The viewer has drawn the first `count` bytes; one that says more than there is has drawn all."""
        if viewer in self._viewers:
            self._viewers[viewer] = max(self._viewers[viewer], min(count, self.total))

    def shown(self, viewer: int) -> int:
        """How far the viewer has come."""
        return self._viewers[viewer]

    def acknowledge(self) -> int | None:
        """The offset to tell the device that everything before it was shown; None: nothing new.

        The fastest viewer counts, and without any what came has been taken.
        """
        shown = max(self._viewers.values()) if self._viewers else self.total
        offset: int | None = None
        while self._marks and self._marks[0].count <= shown:
            offset = self._marks.popleft().offset
        return offset
