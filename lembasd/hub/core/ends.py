"""How often each session's worker ended on its own: one that keeps ending is not started for every look at it."""

from typing import Final

#: ends within the window that close a session until its next session/prompt
MAX_ENDS: Final = 3
WINDOW_S: Final = 60.0


class WorkerEnds:
    """Counts the ends of workers that nobody asked for."""

    def __init__(self) -> None:
        self._ends: dict[str, list[float]] = {}
        self._closed: set[str] = set()

    def ended(self, session: str, now: float) -> bool:
        """A worker ended; whether its session is closed now."""
        self._forget(now)
        times = self._ends.setdefault(session, [])
        times.append(now)
        if len(times) >= MAX_ENDS:
            self._closed.add(session)
            del self._ends[session]
        return session in self._closed

    def _forget(self, now: float) -> None:
        """Drop what is older than the window, so that this holds recent ends only."""
        for session, times in list(self._ends.items()):
            recent = [at for at in times if now - at < WINDOW_S]
            if recent:
                self._ends[session] = recent
            else:
                del self._ends[session]

    def is_closed(self, session: str) -> bool:
        return session in self._closed

    def reopen(self, session: str) -> None:
        """A prompt came: the session may be opened again, and its ends count from none."""
        self._closed.discard(session)
        self._ends.pop(session, None)
