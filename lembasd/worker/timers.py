"""Timers by name, on the loop's clock."""

import asyncio
from collections.abc import Callable


class Timers:
    """One timer a key at a time; its name is free again once it fired."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def set(self, key: str, at: float, fire: Callable[[], None]) -> None:
        """Call `fire` at `at`; a timer of this key that runs is taken back."""
        self.cancel(key)
        self._timers[key] = asyncio.get_running_loop().call_at(at, self._fire, key, fire)

    def _fire(self, key: str, fire: Callable[[], None]) -> None:
        del self._timers[key]
        fire()

    def cancel(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Take every timer back."""
        for key in list(self._timers):
            self.cancel(key)
