"""Processes of a session that go on when a command has ended: its MCP servers.

A command's end ends every child of the worker that nobody knows (`device/process_tree`). So it must know these, and
none may be started while it looks.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from lembasd.device import process_tree


class Kept:
    """The pids of such processes."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._lock = asyncio.Lock()

    async def start(
        self, make: Callable[[], Awaitable[asyncio.subprocess.Process]]
    ) -> asyncio.subprocess.Process:
        """Start a process that is kept until `ended`. Raises what `make` raises."""
        async with self._lock:
            process = await make()
            self._pids.add(process.pid)
        return process

    def ended(self, pid: int) -> None:
        self._pids.discard(pid)

    @asynccontextmanager
    async def still(self) -> AsyncIterator[frozenset[int]]:
        """While this is entered no kept process is started. Gives their pids."""
        async with self._lock:
            yield frozenset(self._pids)


def without_trees(found: list[int], kept: frozenset[int]) -> list[int]:
    """`found` without the kept processes and what is below them. Blocks."""
    trees = kept.union(*(process_tree.descendants(pid) for pid in kept))
    return [pid for pid in found if pid not in trees]
