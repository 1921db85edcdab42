"""The hub's end: a stop of everything, or leaving while workers go on."""

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, assert_never

from structlog.typing import FilteringBoundLogger

from lembasd.device.lock import Membership
from lembasd.device.paths import Paths
from lembasd.hub.core import inputs, supervision
from lembasd.hub.core.supervision import Supervision
from lembasd.hub.runner import Hub
from lembasd.store import sessions

#: how often a stopping hub looks whether it is alone
LOOK_S: Final = 0.02
_REASON: Final = "lembasd is being stopped"


class Lifecycle:
    """Ends the hub once: `ended` is set when nothing more is to be waited for."""

    def __init__(
        self, hub: Hub, paths: Paths, membership: Membership, log: FilteringBoundLogger
    ) -> None:
        self._hub = hub
        self._paths = paths
        self._membership = membership
        self._log = log
        self._machine = Supervision()
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        #: lets the zygotes go, when a stop begins
        self.release_helpers: Callable[[], None] = lambda: None
        self.helper_pids: Callable[[], Iterable[int]] = tuple
        #: called when the end begins, whichever it is
        self.on_ending: Callable[[], None] = lambda: None
        self.ended = asyncio.Event()
        self.left = False

    @property
    def stopping(self) -> bool:
        return self._machine.stopping

    def leave(self) -> None:
        """End the hub alone; workers look for the next one."""
        if not self._machine.stopping:
            self._log.info("hub_leaves")
            self.on_ending()
            self.ended.set()

    def leave_or_stop(self, managed: bool) -> None:
        """SIGTERM: under a service manager a restart looks the same as a stop, so workers go on."""
        if managed and not self._paths.stopping.exists():
            self.leave()
        else:
            self.stop()

    def stop(self) -> None:
        """End everything. Asked a second time, the next step is not waited for."""
        if self._machine.stopping:
            self._handle(supervision.TimerFired(supervision.STOP_TIMER))
            return
        self._log.info("hub_stops")
        self.on_ending()
        # first of all: who loses its hub from now on is to know that it was meant
        with suppress(OSError):  # without it they end when they have waited for a hub in vain
            self._paths.stopping.touch(mode=0o600)
        self._handle(supervision.StopWanted())

    def _handle(self, what: supervision.Input) -> None:
        for effect in self._machine.handle(what, self._loop.time()):
            self._perform(effect)

    def _perform(self, effect: supervision.Effect) -> None:
        match effect:
            case supervision.AskToEnd():
                self._hub.feed(inputs.StopAsked(_REASON))
                self.release_helpers()
                self._look = self._loop.call_later(LOOK_S, self._look_around)
            case supervision.SetTimer(key, at):
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(
                    at, lambda: self._handle(supervision.TimerFired(key))
                )
            case supervision.Terminate():
                self._signal(signal.SIGTERM)
            case supervision.Kill():
                self._signal(signal.SIGKILL)
            case supervision.Finish(left):
                self._finish(left=left)
            case supervision.StartHelper() | supervision.LoopBegan() | supervision.LoopOver():
                pass  # the spawner keeps its own helpers
            case _:
                assert_never(effect)

    def _look_around(self) -> None:
        if _is_alone(self._membership):
            self._handle(supervision.AllGone())
        else:
            self._look = self._loop.call_later(LOOK_S, self._look_around)

    def _signal(self, number: signal.Signals) -> None:
        pids = {*self._hub.children.pids(), *_holders(self._paths).values()}
        if number is signal.SIGKILL:
            pids.update(self.helper_pids())
        self._log.warning("stop_is_slow", signal=number.name, pids=sorted(pids))
        for pid in pids - {0, os.getpid()}:
            with suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or not ours
                os.kill(pid, number)

    def _finish(self, *, left: bool) -> None:
        for timer in (self._timer, self._look):
            if timer is not None:
                timer.cancel()
        self.left = left
        if left:
            self._log.error("stop_incomplete")
        self.ended.set()


def _is_alone(membership: Membership) -> bool:
    """Whether no other process of ours shares the members lock. Once alone, it is this process' own: whoever waits for
    all to be gone (`lembasd stop`) then waits for this one too.
    """
    try:
        fcntl.flock(membership.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # a failed change loses the share that was there
        fcntl.flock(membership.handle, fcntl.LOCK_SH)
        return False
    return True


def _holders(paths: Paths) -> dict[str, int]:
    """The sessions whose lock is held, and by which pid (0: it has not written it yet)."""
    found = {name: sessions.probe(paths, name).locked_by for name in sessions.listed(paths)}
    return {name: pid for name, pid in found.items() if pid is not None}
