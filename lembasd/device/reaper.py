"""Reaping what a subreaper was given: orphans become its children, and stay zombies until it waits for them.

By pid and never all of them: a child of the loop that is reaped by anybody else never ends for the loop. What is found
dead at two looks is none, for the loop has had its turn in between.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lembasd.device import process_tree

#: between looks while something runs that may leave orphans
LOOK_S: Final = 0.5
#: between looks while nothing does, but children are there: one that could not be ended, or what a server left
REST_S: Final = 10.0


class Reaper:
    """Looks while `watching` is entered, and then until no child is left. Without children it costs nothing."""

    def __init__(self, look_s: float = LOOK_S, rest_s: float = REST_S) -> None:
        self._look_s = look_s
        self._rest_s = rest_s
        self._watched = 0
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While this is entered, orphans may come at any time."""
        self._watched += 1
        self._begin()
        try:
            yield
        finally:
            self._watched -= 1
            self._begin()

    def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()

    def _begin(self) -> None:
        self.close()
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        dead: dict[int, float] = {}
        while self._watched or process_tree.children(os.getpid()):
            # soon again for what was dead just now
            await asyncio.sleep(self._look_s if self._watched or dead else self._rest_s)
            seen = await asyncio.to_thread(process_tree.dead_children)
            for pid, started in seen.items():
                if dead.get(pid) == started:
                    _reap(pid)
            dead = seen


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
