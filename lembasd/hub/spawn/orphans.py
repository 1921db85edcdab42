"""What dead workers left behind where no zygote ends it.

The hub is a subreaper: when a worker's zygote is gone, what the worker's tools left behind becomes the hub's own child
once the worker has ended too, and is known by that, even with its environment cleared. Where that cannot be (no
subreapers, or a person's processes may be among the hub's children), the marker that tools carry must do.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from lembasd.device import process_tree
from lembasd.device.cgroups import Groups
from lembasd.protocol.ids import is_session_id


class LivePids(Collection[int]):
    """A set of pids that is looked up anew each time: children may be started while a tree is being ended."""

    def __init__(self, look: Callable[[], set[int]]) -> None:
        self._look = look

    def __contains__(self, pid: object) -> bool:
        return pid in self._look()

    def __iter__(self) -> Iterator[int]:
        return iter(self._look())

    def __len__(self) -> int:
        return len(self._look())


class Orphans:
    """Ends orphans in tasks of its own. `close` cancels what still runs.

    `known` gives the hub's own children: whoever else is one was left behind by a worker. It is None while that is
    not certain.
    """

    def __init__(
        self,
        known: Callable[[], Collection[int] | None] = lambda: None,
        groups: Groups | None = None,
    ) -> None:
        self._known = known
        self._groups = groups
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking = False

    def after(self, channel: str, pid: int, then: Callable[[], None]) -> None:
        """End the tools of this session, whose worker `pid` is gone, then call `then`; at once when it is no session."""
        if is_session_id(channel):
            self._run(self._end(channel, pid, then))
        else:
            then()

    async def _end(self, channel: str, pid: int, then: Callable[[], None]) -> None:
        try:
            if self._groups is not None:
                await asyncio.to_thread(self._groups.end_worker, pid)
                # the zygote that would do it at its end may be gone
                await asyncio.to_thread(self._groups.close)
            marked = await asyncio.to_thread(process_tree.by_marker, channel)
            known = self._known()
            if marked or known is not None:
                await process_tree.end_tree([one.pid for one in marked], known=known)
        finally:
            then()

    def reap_strangers(self, known: set[int], live: set[str]) -> None:
        """Of our own children that are not in `known`: reap the dead, end the tools of sessions not in `live`.

        A stranger without a marker is left alone: it may be a person's, started in a terminal, whose zygote is no
        subreaper, so that it came to us.
        """
        found = process_tree.strangers(known)
        if not found or self._looking:
            return
        self._looking = True
        self._run(self._reap(set(found), live))

    async def _reap(self, found: set[int], live: set[str]) -> None:
        try:
            marked = await asyncio.to_thread(process_tree.by_marker)
            roots = [one.pid for one in marked if one.pid in found and one.session_id not in live]
            if roots:
                await process_tree.end_tree(roots)
            for pid in found - set(roots):
                _reap_if_dead(pid)
        finally:
            self._looking = False

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def _reap_if_dead(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
