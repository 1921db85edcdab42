"""What is done in a chaos run while a process stands still at some moment. Each leaves the service to mend itself."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from tests.support.chaos.clock import Clock
from tests.support.chaos.disk import Disk
from tests.support.chaos.terminals import Terminals
from tests.support.chaos.work import WHOLE_S, Stopped, Work
from tests.support.daemon import gone

#: how far clocks jump
DAY_S: Final = 86_400
#: the watchdog of a long run; a hub that hangs is killed a second after it
WATCHDOG_S: Final = 5.0
Harm = Callable[[Stopped], Awaitable[None]]


class Harms:
    """What can be done here, by its name: `deaths` of processes and connections, `wants` of what they need."""

    def __init__(
        self, work: Work, terminals: Terminals, clock: Clock | None, disk: Disk | None
    ) -> None:
        self._work = work
        self._terminals = terminals
        self._clock = clock
        self._disk = disk
        self.deaths: dict[str, Harm] = {
            "link dropped": self._link_dropped,
            "instance killed": self._instance_killed,
            "instance stopped": self._instance_stopped,
            "hub killed": self._hub_killed,
            "hub stopped": self._hub_stopped,
            "hub restarted": self._hub_restarted,
            "worker killed": self._worker_killed,
            "worker stopped": self._worker_stopped,
            "zygote killed": lambda stopped: self._helper_killed("worker", stopped),
            "zygote stopped": lambda stopped: self._helper_stopped("worker", stopped),
            "pty killed": self._pty_killed,
            "pty stopped": self._pty_stopped,
            "pty zygote killed": lambda stopped: self._helper_killed("pty", stopped),
            "pty zygote stopped": lambda stopped: self._helper_stopped("pty", stopped),
        }
        self.wants: dict[str, Harm] = {}
        if sys.platform == "linux":
            self.wants["no longer files"] = self._no_longer_files
        # what is not dumpable shows its descriptors to root alone
        if os.access(f"/proc/{work.hub}/fd", os.R_OK):
            self.wants |= {
                "no descriptors for the hub": self._no_descriptors_for_the_hub,
                "no descriptors for the worker": self._no_descriptors_for_the_worker,
                "no descriptors for the zygote": self._no_descriptors_for_the_zygote,
            }
        if disk is not None:
            self.wants["disk full"] = lambda stopped: self._disk_full(disk, stopped)
        if clock is not None:
            self.wants |= {
                "clock forward": lambda stopped: self._clock_jumped(clock, DAY_S, stopped),
                "clock back": lambda stopped: self._clock_jumped(clock, -DAY_S, stopped),
                "machine slept": lambda stopped: self._slept(clock, stopped),
            }

    @property
    def left_out(self) -> list[str]:
        """What this machine has no way for."""
        ways = {
            "descriptors run out": "no descriptors for the hub" in self.wants,
            "files run into their limit": "no longer files" in self.wants,
            "the disk fills": self._disk is not None,
            "clocks jump": self._clock is not None,
        }
        return [name for name, there in ways.items() if not there]

    # ── the link ────────────────────────────────────────────────────────────────────────────────

    async def _link_dropped(self, stopped: Stopped) -> None:
        if self._work.person.link is not None:
            self._work.person.link.device.drop()
        await self._work.go_on(stopped)

    async def _instance_killed(self, stopped: Stopped) -> None:
        work = self._work
        # their streams end in mid-word, and they ask anew
        work.excused |= work.person.waiting
        await work.instance.go_away()
        await work.go_on(stopped)
        await work.instance.come_back()

    async def _instance_stopped(self, stopped: Stopped) -> None:
        """It reads nothing for a while."""
        device = self._work.instance.devices[-1]
        device.reads.clear()
        await self._work.go_on(stopped)
        device.reads.set()

    # ── the hub ─────────────────────────────────────────────────────────────────────────────────

    async def _hub_killed(self, stopped: Stopped) -> None:
        work = self._work
        hub = work.hub
        os.kill(hub, signal.SIGKILL)
        # nobody serves while the worker does its next steps
        await work.go_on(stopped)
        await self._another(hub)

    async def _hub_stopped(self, stopped: Stopped) -> None:
        work = self._work
        hub = work.hub
        os.kill(hub, signal.SIGSTOP)
        if stopped.pid != hub:
            await work.go_on(stopped)
        with suppress(ProcessLookupError):
            os.kill(hub, signal.SIGCONT)

    async def _hub_restarted(self, stopped: Stopped) -> None:
        work = self._work
        if stopped.pid == work.hub:
            work.resume(stopped)
        await work.manager.stop()
        work.resume(stopped)
        await work.manager.start()

    async def hub_hangs(self, stopped: Stopped) -> None:
        """Until its service manager has had enough of it."""
        work = self._work
        hub = work.hub
        os.kill(hub, signal.SIGSTOP)
        if stopped.pid != hub:
            work.resume(stopped)
        await self._another(hub)

    async def _another(self, hub: int) -> None:
        async with asyncio.timeout(WHOLE_S):
            while self._work.hub == hub:  # noqa: ASYNC110 - the manager tells nobody
                await asyncio.sleep(0.005)
        await self._work.whole()

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    def _worker(self, stopped: Stopped) -> int:
        """The worker of the session that the moment is about."""
        if stopped.pid != self._work.hub:
            return stopped.pid
        return self._work.workers[stopped.session]

    async def _worker_killed(self, stopped: Stopped) -> None:
        worker = self._worker(stopped)
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        self._work.resume(stopped)
        await gone(worker)

    async def _worker_stopped(self, stopped: Stopped) -> None:
        """It stands still for a while, and nobody waits for it."""
        work = self._work
        worker = self._worker(stopped)
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGSTOP)
        if worker != stopped.pid:
            await work.go_on(stopped)
        others = [one for one in work.sessions if one != stopped.session]
        other = work.order.choice(others)
        work.model.let_go(work.ask(other))
        await work.install.milestones.wait("worker.turn_ended", WHOLE_S, session_id=other)
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
        work.resume(stopped)

    def _helper(self, kind: str) -> int | None:
        """The zygote of the hub that runs now; on the portable path the spare that waits."""
        pid, parent = self._work.helpers.get(kind, (0, 0))
        return pid if parent == self._work.hub and psutil.pid_exists(pid) else None

    async def _helper_killed(self, kind: str, stopped: Stopped) -> None:
        helper = self._helper(kind)
        if helper is not None:
            os.kill(helper, signal.SIGKILL)
        await self._work.go_on(stopped)
        await self._work.whole()

    async def _helper_stopped(self, kind: str, stopped: Stopped) -> None:
        helper = self._helper(kind)
        if helper is not None:
            os.kill(helper, signal.SIGSTOP)
        await self._work.go_on(stopped)
        if helper is not None:
            with suppress(ProcessLookupError):
                os.kill(helper, signal.SIGCONT)

    async def _pty_killed(self, stopped: Stopped) -> None:
        terminal = self._work.order.choice(sorted(self._terminals.shells))
        os.kill(self._terminals.processes[terminal], signal.SIGKILL)
        await self._work.go_on(stopped)
        await self._terminals.killed(terminal)

    async def _pty_stopped(self, stopped: Stopped) -> None:
        terminal = self._work.order.choice(sorted(self._terminals.shells))
        pid = self._terminals.processes[terminal]
        os.kill(pid, signal.SIGSTOP)
        await self._work.go_on(stopped)
        os.kill(pid, signal.SIGCONT)

    # ── what runs out ───────────────────────────────────────────────────────────────────────────

    async def _no_descriptors_for_the_hub(self, stopped: Stopped) -> None:
        """While workers and clients of its own come back to it."""
        work = self._work
        with _lowered(work.hub, resource.RLIMIT_NOFILE, _descriptors(work.hub)):
            if work.person.link is not None:
                work.person.link.device.drop()
            await work.go_on(stopped)

    async def _no_descriptors_for_the_worker(self, stopped: Stopped) -> None:
        worker = self._worker(stopped)
        with _lowered(worker, resource.RLIMIT_NOFILE, _descriptors(worker)):
            await self._work.go_on(stopped)

    async def _no_descriptors_for_the_zygote(self, stopped: Stopped) -> None:
        """While a session is to open again."""
        work = self._work
        helper = self._helper("worker")
        if helper is None:
            await work.go_on(stopped)
            return
        _, hard = resource.prlimit(helper, resource.RLIMIT_NOFILE)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        with _lowered(helper, resource.RLIMIT_NOFILE, _descriptors(helper)):
            await self._worker_killed(stopped)
            if stopped.session:
                work.ask(stopped.session)
            await work.go_on(stopped)
        # what was forked meanwhile has the same limit
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(helper).children():
                with suppress(ProcessLookupError):
                    resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (soft, hard))

    async def _no_longer_files(self, stopped: Stopped) -> None:
        with _lowered(self._worker(stopped), resource.RLIMIT_FSIZE, 0):
            await self._work.go_on(stopped)

    async def _disk_full(self, disk: Disk, stopped: Stopped) -> None:
        disk.fill()
        await self._work.go_on(stopped)
        disk.free()

    # ── clocks ──────────────────────────────────────────────────────────────────────────────────

    async def _clock_jumped(self, clock: Clock, seconds: int, stopped: Stopped) -> None:
        clock.jump(seconds)
        await self._work.go_on(stopped)

    async def _slept(self, clock: Clock, stopped: Stopped) -> None:
        clock.sleep(DAY_S // 24)
        await self._work.go_on(stopped)


def _descriptors(pid: int) -> int:
    """One more than the highest that it has open."""
    handles = [int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir()]
    return max(handles, default=0) + 1


@contextmanager
def _lowered(pid: int, limit: int, value: int) -> Iterator[None]:
    """A limit of a running process, for a while."""
    try:
        soft, hard = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, (value, hard))
    except ProcessLookupError:
        yield
        return
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, limit, (soft, hard))
