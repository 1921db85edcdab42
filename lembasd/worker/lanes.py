"""Calls that may hang with the disk they ask: each folder has a lane of its own, so that one that hangs holds up no other."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from lembasd.protocol.errors import INTERNAL_ERROR, RequestRefused
from lembasd.store.apart import run_apart

T = TypeVar("T")

#: a folder that does not answer by then is on a disk that hangs, and the request is refused
ANSWER_S: Final = 10.0
#: folders that are asked at once; more wait. What reads journals has threads left, whatever hangs here
MAX_FOLDERS: Final = 6
#: requests that wait for one folder; one more is refused (a client that asks on and on without an answer)
MAX_WAITING: Final = 100


class _Lane:
    """One folder's: the lock is held by the call that is under way, however long that takes."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
        #: the call under way has been given up
        self.is_late = False


class Lanes:
    """Runs one call a folder at a time, in a thread. A call that hangs is left behind, and keeps its lane until it ends."""

    def __init__(self, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._lanes: dict[str, _Lane] = {}
        self._room = asyncio.Semaphore(MAX_FOLDERS)

    async def run(self, folder: str, call: Callable[[], T]) -> T:
        """What `call` gives or raises. Raises RequestRefused when the folder does not answer."""
        lane = self._lanes.setdefault(folder, _Lane())
        if lane.is_late:
            raise _hangs(folder)
        if lane.users >= MAX_WAITING:
            raise _busy(folder)
        lane.users += 1
        begun: asyncio.Future[T] | None = None
        try:
            async with asyncio.timeout(self._answer_s):
                begun = await self._begin(lane, folder, call)
                return await asyncio.shield(begun)
        except TimeoutError:
            if begun is None:
                raise _busy(folder) from None
            lane.is_late = True
            raise _hangs(folder) from None
        finally:
            lane.users -= 1
            self._tidy(lane, folder)

    async def _begin(self, lane: _Lane, folder: str, call: Callable[[], T]) -> "asyncio.Future[T]":
        await lane.lock.acquire()
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            lane.lock.release()
            raise
        begun = asyncio.ensure_future(run_apart(call))
        begun.add_done_callback(lambda done: self._ended(lane, folder, done))
        return begun

    def _ended(self, lane: _Lane, folder: str, done: "asyncio.Future[Any]") -> None:
        self._room.release()
        lane.lock.release()
        lane.is_late = False
        self._tidy(lane, folder)
        if not done.cancelled():
            done.exception()  # looked at, so that one nobody waits for any more is no complaint

    def _tidy(self, lane: _Lane, folder: str) -> None:
        if not lane.users and not lane.lock.locked():
            self._lanes.pop(folder, None)


def _hangs(folder: str) -> RequestRefused:
    return RequestRefused(
        INTERNAL_ERROR,
        f"{folder} does not answer; see to its disk, then try again",
        {"reason": "no_answer", "retryable": True},
    )


def _busy(folder: str) -> RequestRefused:
    return RequestRefused(
        INTERNAL_ERROR,
        f"too many requests wait for {folder}, or for folders that do not answer; try again in a moment",
        {"reason": "busy", "retryable": True},
    )
