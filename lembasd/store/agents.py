"""Whether a process is an agent's: started by the tools of a session of this install, however it detached itself.

What the kernel says counts: who is above the process, and who holds a session's lock, as every worker does. So it is known
before any worker has said hello to a new hub. The marker that tools carry counts beside it, and so does the control group of a worker, where each has one. A process that a service of
the desktop started for an agent (cron, systemd, at) is beyond what this can see (docs/security.md).
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from lembasd.device import cgroups, lock, process_tree
from lembasd.device.paths import Paths
from lembasd.protocol.ids import is_session_id
from lembasd.store import sessions
from lembasd.store.journal import LOCK


class Known(Struct, frozen=True):
    """What a hub knows of its own processes."""

    #: workers that it started or that joined it
    workers: Collection[int] = ()
    #: itself and what it starts workers with: what is below them is a worker's, for their other children are not
    starters: Collection[int] = ()
    #: terminals and what starts them: what is below them is a person's
    terminals: Collection[int] = ()


def is_agents(paths: Paths, pid: int, known: Known | None = None) -> bool:
    """Whether a tool's process is `pid`, or is above it. One that is gone, so that nobody can tell, is taken for one."""
    hub = known or Known()
    above = process_tree.ancestors(pid)
    if not above and process_tree.started_at(pid) is None:
        return True
    if _is_marked(paths, pid) or _is_in_group(paths, pid):
        return True
    evidence = _Evidence(paths, above)
    for one in above:
        if one in hub.terminals:
            return False
        if one in hub.workers or one in hub.starters or evidence.is_worker_or_starter(one):
            return True
        if _is_marked(paths, one):
            return True
    return False


def is_below_worker(paths: Paths, pid: int, known: Known | None = None) -> bool:
    """Whether a worker is above `pid`, which says that it is one itself, or what a hub starts workers with.

    The hub knows each worker that it started: another one below its own starters is what a dead worker left behind. One
    that is gone is taken for an agent's.
    """
    hub = known or Known()
    above = process_tree.ancestors(pid)
    if not above and process_tree.started_at(pid) is None:
        return True
    if _is_in_group(paths, pid):
        return True
    evidence = _Evidence(paths, above)
    return any(
        one in hub.workers
        or one in hub.starters
        or evidence.is_worker(one)
        or _is_marked(paths, one)
        for one in above
    )


def _is_marked(paths: Paths, pid: int) -> bool:
    session = process_tree.marked_session(pid)
    # the marker of another install's session (one that is tried out inside a session) is no business of this one
    return is_session_id(session) and paths.session(session).is_dir()


def _is_in_group(paths: Paths, pid: int) -> bool:
    """Whether a worker's control group holds it, whoever is above it now; the worker itself is no agent's."""
    return cgroups.worker_of(paths, pid) not in (None, pid)


class _Evidence:
    """What the locks say of some processes, looked up once. `pids`: whom it may be asked about."""

    def __init__(self, paths: Paths, pids: Collection[int]) -> None:
        self._paths = paths
        self._held = lock.held_by(pids)
        self._members = _inode(paths.members_lock)
        self._workers: set[int] | None = None

    def is_worker(self, pid: int) -> bool:
        """Whether it holds the lock of a session."""
        # a zygote holds the members lock alone: no need to look through every session for it
        if self._held is not None and not self._held.get(pid, set()) - {self._members}:
            return False
        if self._workers is None:
            self._workers = set(self._find_workers())
        return pid in self._workers

    def is_worker_or_starter(self, pid: int) -> bool:
        """Whether it is a worker, or forks workers: for an earlier hub too, whose workers it was left with."""
        return self.is_worker(pid) or (
            self._held is not None
            and self._members in self._held.get(pid, set())
            and _is_worker_zygote(pid)
        )

    def _find_workers(self) -> Iterator[int]:
        for name in sessions.listed(self._paths):
            path = self._paths.session(name) / LOCK
            if self._held is None:
                yield sessions.holder(path) or 0
                continue
            # the kernel's word, not the file's text: that could be written by anybody
            inode = _inode(path)
            yield from (pid for pid, inodes in self._held.items() if inode in inodes)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _is_worker_zygote(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"\0lembasd.zygote\0" in words and b"\0--kind\0worker\0" in words
