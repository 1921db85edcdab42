"""Which sessions' processes end again and again on their own: they are not started for every look at them.

Such a session is closed until its next prompt; the reader of sessions nobody has open is closed for a window. Either is a
crash loop from then on, until a process of it has lived for a window or ended as it should.
"""

from typing import Final

from lembasd.hub.core.intensity import Intensity

#: ends within the window that close a session until its next session/prompt
MAX_ENDS: Final = 3
WINDOW_S: Final = 60.0


class WorkerEnds:
    """Counts the ends of workers that nobody asked for."""

    def __init__(self) -> None:
        self._intensity = Intensity(MAX_ENDS, WINDOW_S)
        self._closed: set[str] = set()
        self._looping: set[str] = set()

    def ended(self, session: str, now: float) -> bool:
        """A worker ended on its own; whether a crash loop begins with it."""
        if not self._intensity.ended(session, now):
            return False
        self._closed.add(session)
        is_news = session not in self._looping
        self._looping.add(session)
        return is_news

    def is_closed(self, session: str) -> bool:
        return session in self._closed

    def is_looping(self, session: str) -> bool:
        return session in self._looping

    def reopen(self, session: str) -> None:
        """The session may be opened again, and its ends count from none."""
        self._closed.discard(session)
        self._intensity.forget(session)

    def settled(self, session: str) -> bool:
        """A process of it did not crash, or the session is gone; whether a crash loop is over with that."""
        if session not in self._looping or session in self._closed:
            return False
        self._looping.discard(session)
        return True
