"""The sweep: what workers that are gone left behind of tools, MCP servers and agents is found and ended.

It all ends with its worker (`device/process_tree.py`, `cgroups.py`); the sweep is for what was left when nobody was there
to end it, a power cut of our processes alone, and shows in the log that else there is nothing. It goes by the marker of
this install's sessions and by their control groups, so that it never touches what a worker that lives has started, what
is a person's, or another install's.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import psutil
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from lembasd.device import milestones, process_tree
from lembasd.device.cgroups import Group, Groups
from lembasd.device.paths import Paths
from lembasd.hub.core.orphans import Carrier, left_behind
from lembasd.store import journal, sessions

#: between sweeps, of the time that the machine is awake
SWEEP_S: Final = 3600.0


class Swept(Struct, frozen=True):
    """What a sweep found. `carriers`: how many processes carried the marker of a session of ours, all in all."""

    carriers: int = 0
    ended: list[int] = []
    left: list[int] = []
    #: of what was left behind
    sessions: list[str] = []
    programs: list[str] = []


class _Found(Struct, frozen=True):
    carriers: int
    orphans: list[Carrier]
    groups: list[Group]
    sessions: list[str]
    programs: list[str]


async def sweep(paths: Paths, groups: Groups | None) -> Swept:
    """Look once, and end what was left behind."""
    found = await asyncio.to_thread(_look, paths, groups)
    in_groups: set[int] = set()
    for group in found.groups:
        if groups is not None:
            in_groups.update(await asyncio.to_thread(groups.end, group))
    pids = [one.pid for one in found.orphans]
    report = await process_tree.end_tree(pids) if pids else process_tree.EndReport([], [])
    ended = {pid for pid in in_groups if process_tree.is_gone(pid)} | {*report.ended}
    return Swept(
        carriers=found.carriers,
        ended=sorted(ended),
        left=sorted((in_groups | {*report.left}) - ended),
        sessions=found.sessions,
        programs=found.programs,
    )


def _look(paths: Paths, groups: Groups | None) -> _Found:
    marked = process_tree.by_marker()
    ours = {*sessions.listed(paths)}
    carriers = [
        Carrier(one.pid, one.session_id, one.epoch) for one in marked if one.session_id in ours
    ]
    # after the processes were found: who holds a lock now began before, or has nothing of what was found
    held = {
        session: journal.last_epoch(paths, session)
        for session in {one.session_id for one in carriers}
        if sessions.probe(paths, session).locked_by is not None
    }
    orphans = left_behind(carriers, ours, held)
    left = [] if groups is None else groups.left()
    pids = {one.pid for one in orphans}
    if groups is not None:
        pids.update(pid for group in left for pid in groups.members(group))
    return _Found(
        carriers=len(carriers),
        orphans=orphans,
        groups=left,
        sessions=sorted({one.session_id for one in orphans} | {one.session_id for one in left}),
        programs=sorted({*map(_program, pids)} - {""}),
    )


def _program(pid: int) -> str:
    """The name of its program, never its arguments; "" when it is gone."""
    with suppress(psutil.Error):
        return str(psutil.Process(pid).name())
    return ""


class Sweeper:
    """Sweeps at the start and then every `every_s`."""

    def __init__(
        self,
        paths: Paths,
        groups: Groups | None,
        log: FilteringBoundLogger,
        every_s: float = SWEEP_S,
    ) -> None:
        self._sweep = partial(sweep, paths, groups)
        self._log = log
        self._every_s = every_s
        #: called with each sweep: our own children are looked through too
        self.on_sweep: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.tell(await self._sweep())
            self.on_sweep()
            milestones.reached("hub.swept")
            await asyncio.sleep(self._every_s)

    def tell(self, swept: Swept) -> None:
        """Log what was found."""
        if not swept.sessions:
            self._log.info("orphans_none", carriers=swept.carriers)
            return
        self._log.warning(
            "orphans_ended",
            ended=swept.ended,
            left=swept.left,
            sessions=swept.sessions,
            programs=swept.programs,
        )
