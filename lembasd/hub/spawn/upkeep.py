"""Starting helpers again when they end: performs what `hub/core/supervision` decides."""

import asyncio
from collections.abc import Callable

from lembasd.hub.core import supervision
from lembasd.hub.core.supervision import Supervision
from lembasd.hub.spawn.api import Kind


class Upkeep:
    """One machine for all helpers. `start` is called for each that is to be started now, `loops` when one ends again
    and again (True), and when it does not any more.
    """

    def __init__(self, start: Callable[[Kind], None], loops: Callable[[Kind, bool], None]) -> None:
        self._start = start
        self._loops = loops
        self._machine = Supervision()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def stopping(self) -> bool:
        return self._machine.stopping

    def wanted(self, kind: Kind) -> None:
        self._handle(supervision.Wanted(kind))

    def ended(self, kind: Kind) -> None:
        self._handle(supervision.HelperEnded(kind))

    def stop(self) -> None:
        """Nothing is started from now on."""
        self._handle(supervision.StopWanted())
        self.close()

    def _handle(self, what: supervision.Input) -> None:
        for effect in self._machine.handle(what, self._loop.time()):
            match effect:
                case supervision.StartHelper(helper):
                    self._start(_kind(helper))
                case supervision.LoopBegan(helper):
                    self._loops(_kind(helper), True)
                case supervision.LoopOver(helper):
                    self._loops(_kind(helper), False)
                case supervision.SetTimer(key, at) if key != supervision.STOP_TIMER:
                    if key in self._timers:
                        self._timers[key].cancel()
                    fired = supervision.TimerFired(key)
                    self._timers[key] = self._loop.call_at(at, self._handle, fired)
                case _:
                    pass  # the steps of a stop are the hub's own machine's

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def _kind(helper: str) -> Kind:
    return "pty" if helper == "pty" else "worker"
