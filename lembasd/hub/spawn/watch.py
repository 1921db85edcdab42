"""Learning of the end of processes: ours by their status, others by their absence."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Final

import psutil

#: how often the portable path looks for processes that are not our children
POLL_S: Final = 0.25
#: when no descriptor is left for a process, how long until one is tried for again
RETRY_S: Final = 0.25

Ended = Callable[[int, int | None], None]


def status_of(end: os.waitid_result) -> int:
    """A waitid result in waitpid's encoding."""
    if end.si_code == os.CLD_EXITED:
        return end.si_status << 8
    return end.si_status | (0x80 if end.si_code == os.CLD_DUMPED else 0)


class PidfdWatcher:
    """Linux: told by the kernel, with the status of what is or has become our child."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._handles: dict[int, int] = {}
        #: those that no descriptor could be had for
        self._later: dict[int, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def pids(self) -> set[int]:
        return {*self._handles, *self._later}

    def watch(self, pid: int) -> None:
        """Tell of the end of `pid`, once; a process that is gone already has ended with an unknown status."""
        if pid in self._handles or pid in self._later:
            return
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            self._loop.call_soon(self._ended, pid, None)
            return
        except OSError:  # no descriptor is left; the process may well live
            self._later[pid] = self._loop.call_later(RETRY_S, self._retry, pid)
            return
        self._handles[pid] = handle
        self._loop.add_reader(handle, self._gone, pid)

    def _retry(self, pid: int) -> None:
        del self._later[pid]
        self.watch(pid)

    def _gone(self, pid: int) -> None:
        handle = self._handles.pop(pid)
        self._loop.remove_reader(handle)
        try:
            end = os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG)
        except ChildProcessError:  # not our child: only its parent learns the status
            end = None
        os.close(handle)
        self._ended(pid, status_of(end) if end is not None else None)

    def close(self) -> None:
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        for handle in self._handles.values():
            self._loop.remove_reader(handle)
            os.close(handle)
        self._handles.clear()


class PollingWatcher:
    """Elsewhere: a look now and then at pid and start time."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._processes: dict[int, psutil.Process] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def pids(self) -> set[int]:
        return set(self._processes)

    def watch(self, pid: int) -> None:
        """Tell of the end of `pid`, once; its status is known where it is our child, which is then reaped."""
        try:
            self._processes.setdefault(pid, psutil.Process(pid))
        except psutil.Error:
            self._loop.call_soon(self._ended, pid, None)
            return
        if self._timer is None:
            self._timer = self._loop.call_later(POLL_S, self._look)

    def _look(self) -> None:
        self._timer = None
        for pid, process in list(self._processes.items()):
            if not _runs(process):
                del self._processes[pid]
                self._loop.call_soon(partial(self._ended, pid, _reaped(pid)))
        if self._processes:
            self._timer = self._loop.call_later(POLL_S, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._processes.clear()


def _reaped(pid: int) -> int | None:
    """The status of a child that has ended, in waitpid's encoding; None for one that is not ours."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return status if found else None


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
