"""When a worker that has nothing to do ends: which of two timers runs."""

from typing import Final

from lembasd.worker.core.effects import CancelTimer, Effect, SetTimer

#: without a hub an idle worker ends after so long (architecture.md, Lifetimes)
ALONE_S: Final = 600.0
#: idle while another version is to have the session: time enough for a prompt that comes with the new hub's first clients
SUPERSEDED_S: Final = 1.0
#: idle with a hub: the hub is asked
IDLE: Final = "idle"
#: idle without one: nobody need be asked
ALONE: Final = "alone"


class Rest:
    """`alone_s`: how long an idle worker without a hub waits for the next one."""

    def __init__(self, alone_s: float = ALONE_S) -> None:
        self._alone_s = alone_s
        #: the timer that runs and its length
        self._timer: tuple[str, float] | None = None

    def follow(
        self, *, idle: bool, hub: bool, superseded: bool, idle_s: float, now: float
    ) -> list[Effect]:
        """Have the timer run that fits how things are; it is not begun anew while nothing changes."""
        wanted = None
        if idle:
            wanted = (IDLE, idle_s) if hub else (ALONE, self._alone_s)
            if superseded:
                wanted = (wanted[0], min(wanted[1], SUPERSEDED_S))
        if wanted == self._timer:
            return []
        effects: list[Effect] = []
        if self._timer is not None and (wanted is None or wanted[0] != self._timer[0]):
            effects.append(CancelTimer(self._timer[0]))
        if wanted is not None:
            effects.append(SetTimer(wanted[0], now + wanted[1]))
        self._timer = wanted
        return effects

    def fired(self, key: str) -> bool:
        """Whether it is the timer that runs; it then runs no more."""
        if self._timer is None or self._timer[0] != key:
            return False
        self._timer = None
        return True
