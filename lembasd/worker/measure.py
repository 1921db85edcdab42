"""What this process uses: others may not read it, for it is not dumpable."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import psutil

from lembasd.store.apart import run_apart

#: reading one's own memory map costs a millisecond: not at every change of state
EVERY_S: Final = 30.0
#: nor in the middle of what changed it
SETTLES_S: Final = 1.0


class Measure:
    """The last figures; `news` is called when there are newer ones."""

    def __init__(self, news: Callable[[], None]) -> None:
        self._news = news
        self._next_at = 0.0
        self.pss_bytes = 0
        self.fds = 0

    def due(self, now: float, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Measure again if the figures are old; returns at once."""
        if now >= self._next_at:
            self._next_at = now + EVERY_S
            spawn(self._take())

    async def _take(self) -> None:
        await asyncio.sleep(SETTLES_S)
        try:
            self.pss_bytes, self.fds = await run_apart(_figures)
        except (OSError, psutil.Error, TimeoutError):
            return  # not to be had, or a disk hangs and every thread with it: the old figures stay
        self._news()


def _figures() -> tuple[int, int]:
    """(bytes, open descriptors) of this process."""
    if sys.platform != "linux":
        process = psutil.Process()
        return int(process.memory_full_info().uss), process.num_fds()
    # psutil's way to the same two numbers makes each idle worker 0.4 MB larger
    rollup = Path("/proc/self/smaps_rollup").read_bytes()
    return proportional(rollup), sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1


def proportional(rollup: bytes) -> int:
    """The proportional set size in bytes that /proc/<pid>/smaps_rollup says."""
    return int(rollup.partition(b"\nPss:")[2].split(maxsplit=1)[0]) * 1024
