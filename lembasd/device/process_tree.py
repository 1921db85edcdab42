"""Finding and ending everything a process started.

`end_tree` stops every descendant and its process group, looks again until nothing new is found, then kills and reaps. A
stopped process forks no more, so what is found twice is all there is. What a tool double-forked is found too where the caller is a
subreaper: it has become the caller's own child, one that the caller does not know (`strangers`).

Linux reads /proc and signals through pidfds, so that a pid used again is never hit. Elsewhere, and with
LEMBASD_PORTABLE=1, psutil is asked, and a process is recognised by its start time.
"""

import asyncio
import os
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from msgspec import Struct

#: the environment variable that every tool of a session carries: `<session_id>:<epoch>`
MARKER: Final = "LEMBASD_SESSION"
#: looks for new descendants before the kill; a tree that still grows after so many is killed as it is, and looked for again
MAX_LOOKS: Final = 64
#: looks in a row that found nothing new: the kernel's list of children is not exact while they come and go
QUIET_LOOKS: Final = 2
#: stop-and-kill rounds; what appears after so many is reported as left
MAX_ROUNDS: Final = 8
#: how long killed processes may take to be gone; what is left then hangs in the kernel (a dead disk) and is reported
GONE_S: Final = 2.0
#: how long a process may take to have an environment once it begins another program; then it counts as having none
EXEC_S: Final = 0.1
_FIRST_WAIT_S: Final = 0.0005
_LONGEST_WAIT_S: Final = 0.02


#: <linux/sched.h>: a thread of the kernel's, which has no environment ever
_PF_KTHREAD: Final = 0x00200000
_IN_EXEC: Final = ("0", "0")


class Marked(Struct, frozen=True, order=True):
    """A process that carries the marker of a session's tools."""

    pid: int
    session_id: str
    epoch: int


class EndReport(Struct, frozen=True):
    """What `end_tree` did: pids gone, and pids still there (not ours to signal, or stuck in the kernel)."""

    ended: list[int]
    left: list[int]


class _Look(Struct, frozen=True):
    """One process at one moment. `started` tells two processes of one pid apart."""

    parent: int
    started: float
    zombie: bool


def is_portable() -> bool:
    """Whether only the ways that work everywhere are used."""
    return sys.platform != "linux" or bool(os.environ.get("LEMBASD_PORTABLE"))


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


def _look(pid: int) -> _Look | None:
    if is_portable():
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            zombie = process.status() == psutil.STATUS_ZOMBIE
            return _Look(process.ppid(), process.create_time(), zombie)
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # "pid (name) state ppid …": the name may hold anything, so count from its last parenthesis
    fields = text[text.rindex(")") + 2 :].split()
    return _Look(int(fields[1]), float(fields[19]), fields[0] in "ZX")


def age_s(pid: int) -> float | None:
    """How long ago the process `pid` started, in seconds; None when it has ended, a zombie too."""
    seen = _look(pid)
    if seen is None or seen.zombie:
        return None
    if is_portable():
        return time.time() - seen.started
    # not psutil's: it adds the time of the boot, which the kernel gives in whole seconds
    return time.clock_gettime(time.CLOCK_BOOTTIME) - seen.started / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The pids of `pid`'s children as they are now; zombies too. Empty when it is gone."""
    if is_portable():
        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                text = (task / "children").read_text(encoding="ascii")
                found += map(int, text.split())
    except OSError:
        return found
    return found


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents before children, `pid` itself left out."""
    found: dict[int, None] = {}
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop(0)):
            if child not in found and child != pid:
                found[child] = None
                waiting.append(child)
    return list(found)


def strangers(known: Collection[int]) -> list[int]:
    """This process' own children that are not in `known`: orphans that a subreaper was given."""
    return [child for child in children(os.getpid()) if child not in known]


def dead_children() -> dict[int, float]:
    """This process' own children that have ended and that nobody has reaped yet, each with when it started."""
    looks = {pid: _look(pid) for pid in children(os.getpid())}
    return {pid: seen.started for pid, seen in looks.items() if seen is not None and seen.zombie}


def by_marker(session_id: str | None = None, epoch: int | None = None) -> list[Marked]:
    """The person's processes that carry the marker: of one session (and one life of its worker), or of any.

    Finds what kept its environment only. This process and those above it are left out.
    """
    above = {os.getpid(), *ancestors(os.getpid())}
    found: list[Marked] = []
    for pid, value in _marker_values():
        session, _, number = value.partition(":")
        if pid in above or not number.isdigit():
            continue
        marked = Marked(pid, session, int(number))
        if session_id in (None, session) and epoch in (None, marked.epoch):
            found.append(marked)
    return found


def _marker_values() -> Iterator[tuple[int, str]]:
    for pid in psutil.pids():
        value = _marker_value(pid)
        if value is not None:
            yield pid, value


def _marker_value(pid: int) -> str | None:
    # psutil reads the same on Linux, where it cannot tell a process in the middle of an exec from one without
    if sys.platform != "linux":
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            return process.environ().get(MARKER) if process.uids().real == os.getuid() else None
        return None
    prefix = f"{MARKER}=".encode()
    with suppress(OSError):  # gone, or another user's
        for entry in _environ(pid).split(b"\0"):
            if entry.startswith(prefix):
                return entry[len(prefix) :].decode("utf-8", "replace")
    return None


def _environ(pid: int) -> bytes:
    """A process' environment. Raises OSError.

    In the middle of an exec there is none to be read: it is waited for, since what is looked for may be just that.
    """
    path = Path(f"/proc/{pid}/environ")
    content, waited = path.read_bytes(), 0.0
    while not content and waited < EXEC_S:
        before = _environment_at(pid)
        content = path.read_bytes()
        # the same place before and after: no exec came between, and there is none indeed
        if before == _environment_at(pid) != _IN_EXEC:
            break
        time.sleep(_FIRST_WAIT_S)
        waited += _FIRST_WAIT_S
    return content


def _environment_at(pid: int) -> tuple[str, str] | None:
    """Where the process' environment lies (_IN_EXEC: not laid out yet); None: it has ended, or is the kernel's."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # counted from the state, which is field 3 of proc(5): flags are field 9, env_start and env_end are 50 and 51
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX" or int(fields[6]) & _PF_KTHREAD:
        return None
    return fields[47], fields[48]


def marked_session(pid: int) -> str:
    """The session of whose tools the process carries the marker; "" when it carries none, or cannot be read."""
    return (_marker_value(pid) or "").partition(":")[0]


def parent(pid: int) -> int:
    """The process above `pid`; 0 when there is none, or `pid` is gone."""
    seen = _look(pid)
    return 0 if seen is None else seen.parent


def started_at(pid: int) -> float | None:
    """When the process started, in a unit of the platform's; None when it is gone. Tells two of one pid apart."""
    seen = _look(pid)
    return None if seen is None else seen.started


def is_gone(pid: int) -> bool:
    """Whether no process of this pid runs; one that nobody has reaped yet does not."""
    seen = _look(pid)
    return seen is None or seen.zombie


def ancestors(pid: int) -> list[int]:
    """The processes above `pid`, its parent first. Empty when it is gone."""
    found: list[int] = []
    while (seen := _look(pid)) is not None and seen.parent > 0 and seen.parent not in found:
        pid = seen.parent
        found.append(pid)
    return found


# ── ending ──────────────────────────────────────────────────────────────────────────────────────


class _Target:
    """One process to be ended, held so that nothing else of its pid is ever signalled."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.denied = False
        self._fd: int | None = None
        if not is_portable():
            with suppress(OSError):  # gone, or out of descriptors: then the start time must do
                self._fd = os.pidfd_open(pid)
        self.seen = _look(pid)

    def send(self, number: signal.Signals) -> None:
        try:
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, number)
            elif not self.gone():
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass  # gone already: what was wanted
        except PermissionError:
            self.denied = True  # somebody else's by now (sudo): reported as left

    def gone(self) -> bool:
        """Whether it has ended; one that nobody has reaped yet has."""
        if self._fd is not None:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(0))
        now = _look(self.pid)
        return now is None or now.zombie or self.seen is None or now.started != self.seen.started

    def reap(self) -> None:
        with suppress(ChildProcessError):  # not our child, or reaped already
            if self._fd is not None:
                os.waitid(os.P_PIDFD, self._fd, os.WEXITED | os.WNOHANG)
            else:
                os.waitpid(self.pid, os.WNOHANG)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _is_dead(child: int) -> bool:
    """Whether this child of ours has ended; it is reaped then."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def _sessions(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            yield os.getsid(pid)


class _Ending:
    """The steps of ending a tree, without the waiting between them."""

    def __init__(
        self, roots: Iterable[int], watched: Collection[int], known: Collection[int] | None
    ) -> None:
        self._never = {os.getpid(), *ancestors(os.getpid()), 0, 1}
        self._sessions = {0, *_sessions(self._never - {0, 1})}
        self._watched = watched
        self._known = known
        self._roots = [pid for pid in roots if pid not in self._never]
        self._targets: dict[int, _Target] = {}
        self._gone: list[_Target] = []
        #: the last look met orphans that had ended: what they forked before may be there by now
        self._ran_away = False

    def steps(self) -> Iterator[float]:
        """Yields seconds to wait before the next step."""
        try:
            for _ in range(MAX_ROUNDS):
                quiet = 0
                for _ in range(MAX_LOOKS):
                    quiet = 0 if self._stop_new() else quiet + 1
                    if quiet == QUIET_LOOKS:
                        break
                    yield 0.0
                for target in self._targets.values():
                    target.send(signal.SIGKILL)
                yield from self._wait_gone()
                self._reap()
                if not self._more():
                    return
        finally:
            for target in [*self._gone, *self._targets.values()]:
                target.close()

    def report(self) -> EndReport:
        return EndReport(
            ended=sorted({target.pid for target in self._gone}), left=sorted(self._targets)
        )

    def _found(self) -> Iterator[tuple[int, Collection[int]]]:
        """Pids that belong to the tree, each with the parents that make it belong."""
        for pid in list(self._targets):
            for child in children(pid):
                yield child, self._targets
        if self._known is not None:
            # the newest first: of a tree that runs away by forking, they are the ones that live still
            for pid in reversed(strangers(self._known)):
                if pid in self._watched or pid in self._targets:
                    continue
                # of one that has ended too, while it keeps its group's number from being used again
                self._stop_group(pid)
                if _is_dead(pid):
                    self._ran_away = True
                else:
                    yield pid, {os.getpid()}

    def _stop_new(self) -> bool:
        """Stop what was not seen before; whether to look again."""
        self._ran_away = False
        new = [self._hold(pid, None) for pid in self._roots]
        self._roots = []
        new += [self._hold(pid, parents) for pid, parents in self._found()]
        return any(new) or self._ran_away

    def _hold(self, pid: int, parents: Collection[int] | None) -> bool:
        if pid in self._targets or pid in self._never:
            return False
        target = _Target(pid)
        seen = target.seen
        # between the look and the pidfd the pid may have become another process, with another parent
        if seen is None or (parents is not None and seen.parent not in parents):
            target.close()
            return False
        target.send(signal.SIGSTOP)
        self._stop_group(pid)
        self._targets[pid] = target
        return True

    def _stop_group(self, pid: int) -> None:
        """Stop the process' whole group at once: no fork gets between.

        Sessions are inherited and never joined, so that all of a session that began in the tree is of the tree; a group
        of this process' own session, or of one above, is let be. The process, stopped or not reaped yet, keeps the number
        of its group from meaning another one.
        """
        try:
            group = os.getpgid(pid)
            if group > 1 and os.getsid(pid) not in self._sessions:
                os.killpg(group, signal.SIGSTOP)
        except (ProcessLookupError, PermissionError):
            pass  # gone, or somebody else's by now: each is tried by itself

    def _wait_gone(self) -> Iterator[float]:
        waited, step = 0.0, _FIRST_WAIT_S
        while waited < GONE_S and self._sweep():
            yield step
            waited += step
            step = min(step * 2, _LONGEST_WAIT_S)

    def _sweep(self) -> bool:
        """Move what is gone aside; whether something is still to come."""
        for pid, target in list(self._targets.items()):
            if target.gone():
                del self._targets[pid]
                self._gone.append(target)
        return any(not target.denied for target in self._targets.values())

    def _reap(self) -> None:
        """Reap once all are gone: a grandchild becomes a subreaper's own only when its parent has ended."""
        for target in self._gone:
            if target.pid not in self._watched:
                target.reap()

    def _more(self) -> bool:
        """Whether there is reason for one more round: orphans that came meanwhile."""
        self._ran_away = False
        return any(pid not in self._targets for pid, _ in self._found()) or self._ran_away


async def end_tree(
    roots: Iterable[int],
    *,
    watched: Collection[int] = (),
    known: Collection[int] | None = None,
) -> EndReport:
    """End `roots` and everything below them: stop, look again until nothing is new, kill, reap.

    `watched`: own children whose end something else waits for (a subprocess of the loop); they are killed but not
    reaped here. With `known`, every own child that is not in it is ended too (`strangers`): for a subreaper, which
    must start no child meanwhile that is not in `known` when the loop runs again.
    Returns after at most about MAX_ROUNDS * GONE_S seconds, mostly within a few milliseconds.
    """
    ending = _Ending(roots, watched, known)
    for wait_s in ending.steps():
        await asyncio.sleep(wait_s)
    return ending.report()


def end_tree_blocking(
    roots: Iterable[int],
    *,
    watched: Collection[int] = (),
    known: Collection[int] | None = None,
) -> EndReport:
    """`end_tree` for a process without a loop."""
    ending = _Ending(roots, watched, known)
    for wait_s in ending.steps():
        time.sleep(wait_s)
    return ending.report()
