"""What devices report, numbered and kept for a while, so that a reader that was away goes on where it was."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.protocol.limits import MIB

#: events and bytes kept; a reader further behind gets an event `gap` and goes on from what is kept
MAX_EVENTS: Final = 8192
MAX_EVENT_BYTES: Final = 16 * MIB


class Event(Struct, frozen=True):
    """`body` is the finished JSON text {n, session_id | terminal_id, method, params}."""

    n: int
    session: str
    body: str


class Events:
    """One feed for all sessions. A terminal's output is not in it: a flood there would push everything else out."""

    def __init__(self, last: int = 0) -> None:
        """`last` is a number that no earlier life of this instance reached, so that its readers are told `gap`."""
        self._kept: deque[Event] = deque()
        self._bytes = 0
        self._last = last
        self._news = asyncio.Event()
        self._closed = False

    @property
    def last(self) -> int:
        return self._last

    def add(
        self, method: str, params: dict[str, Any], *, session: str = "", terminal: str = ""
    ) -> None:
        self._last += 1
        about = {"terminal_id": terminal} if terminal else {"session_id": session}
        body = msgspec.json.encode({"n": self._last, **about, "method": method, "params": params})
        self._kept.append(Event(self._last, session, body.decode()))
        self._bytes += len(body)
        while len(self._kept) > 1 and (
            len(self._kept) > MAX_EVENTS or self._bytes > MAX_EVENT_BYTES
        ):
            self._bytes -= len(self._kept.popleft().body.encode())
        self._wake()

    def close(self) -> None:
        """End every reader."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def after(self, n: int, session: str = "") -> AsyncIterator[Event]:
        """Events later than `n` (all sessions, or one), until closed. A lost stretch is told as the method `gap`."""
        while not self._closed:
            first = self._last + 1 - len(self._kept)
            if n > self._last or n + 1 < first:
                # a number of another life of this instance, or one that is not kept any more
                n = first - 1
                gap = {"n": n, "session_id": session, "method": "gap", "params": {}}
                yield Event(n, session, msgspec.json.encode(gap).decode())
                continue
            if n == self._last:
                await self._news.wait()
                continue
            event = self._kept[n + 1 - first]
            n = event.n
            if not session or event.session == session:
                yield event
