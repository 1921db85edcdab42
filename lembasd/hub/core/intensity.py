"""Restart intensity: how many ends of one thing within a window are too many (the word is OTP's)."""


class Intensity:
    """Counts ends by name. `most` of them within `window_s` are too many."""

    def __init__(self, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._ends: dict[str, list[float]] = {}

    def ended(self, name: str, now: float) -> bool:
        """It ended; whether that is too often. It then counts from none."""
        self._forget_old(now)
        times = self._ends.setdefault(name, [])
        times.append(now)
        if len(times) < self._most:
            return False
        del self._ends[name]
        return True

    def forget(self, name: str) -> None:
        """It counts from none."""
        self._ends.pop(name, None)

    def _forget_old(self, now: float) -> None:
        """Drop what is older than the window, so that this holds recent ends only."""
        for name, times in list(self._ends.items()):
            recent = [at for at in times if now - at < self._window_s]
            if recent:
                self._ends[name] = recent
            else:
                del self._ends[name]
