"""Telling the hub how much of a terminal's output has been shown: by the window, and a moment after the last of it."""

import asyncio
from collections.abc import Callable

from lembasd.cli.core.place import ACK_S, Place


class Acknowledging:
    """`place` counts what was written; `tell` is given each offset that is to be acknowledged."""

    def __init__(self, place: Callable[[], Place], tell: Callable[[int], None]) -> None:
        self._place = place
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None

    def written(self, count: int) -> None:
        """So many bytes more are on the screen."""
        if self._place().written(count):
            self._acknowledge()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACK_S, self._acknowledge)

    def _acknowledge(self) -> None:
        self.close()
        offset = self._place().acknowledged()
        if offset is not None:
            self._tell(offset)

    def close(self) -> None:
        """Tell nothing more of what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
