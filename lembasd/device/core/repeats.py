"""When a line that comes again and again is left out of the log.

A loop that fails a thousand times a second says so in a bounded number of lines, and how many more there were.
"""

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

#: from the first line of one kind on, its others are counted for so long
WINDOW_S: Final = 60.0
#: lines of one kind within a window; more are left out and counted
MAX_LINES: Final = 30
#: kinds that are counted at once; with more, all are forgotten and counted anew
MAX_KINDS: Final = 500


class Heard(Struct, frozen=True):
    """What becomes of a line. `left_out`: lines of its kind since the last that was written; `last`: more are left out."""

    written: bool
    left_out: int = 0
    last: bool = False


_WRITTEN: Final = Heard(written=True)
_LAST: Final = Heard(written=True, last=True)
_LEFT_OUT: Final = Heard(written=False)


class _Kind:
    __slots__ = ("lines", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.lines = 1


class Repeats:
    """Counts the lines of one process."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def hear(self, kind: Hashable, now: float) -> Heard:
        """A line of this kind at the time `now` (seconds, of a clock that never goes back)."""
        known = self._kinds.get(kind)
        if known is None or now - known.since >= WINDOW_S:
            return self._begin(kind, known, now)
        known.lines += 1
        if known.lines < MAX_LINES:
            return _WRITTEN
        return _LAST if known.lines == MAX_LINES else _LEFT_OUT

    def _begin(self, kind: Hashable, known: _Kind | None, now: float) -> Heard:
        left_out = max(0, known.lines - MAX_LINES) if known is not None else 0
        if len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = _Kind(now)
        return Heard(written=True, left_out=left_out) if left_out else _WRITTEN
