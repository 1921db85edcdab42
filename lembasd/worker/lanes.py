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


class Lanes:
    """Runs one call a folder at a time, in a thread. A call that hangs is left behind, and keeps its lane until it ends."""

    def __init__(self, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._calls: dict[str, asyncio.Future[Any]] = {}
        self._late: set[str] = set()

    async def run(self, folder: str, call: Callable[[], T]) -> T:
        """What `call` gives or raises. Raises RequestRefused when the folder does not answer."""
        if folder in self._late:
            raise _hangs(folder)
        try:
            async with asyncio.timeout(self._answer_s):
                while folder in self._calls or len(self._calls) >= MAX_FOLDERS:
                    await self._one_ends(folder)
                under_way = asyncio.ensure_future(run_apart(call))
                self._calls[folder] = under_way
                under_way.add_done_callback(lambda _: self._ended(folder))
                return await asyncio.shield(under_way)
        except TimeoutError:
            if folder in self._calls:
                self._late.add(folder)
            raise _hangs(folder) from None

    async def _one_ends(self, folder: str) -> None:
        before = self._calls.get(folder)
        waits_for = [before] if before is not None else list(self._calls.values())
        await asyncio.wait(waits_for, return_when=asyncio.FIRST_COMPLETED)

    def _ended(self, folder: str) -> None:
        ended = self._calls.pop(folder)
        self._late.discard(folder)
        if not ended.cancelled():
            ended.exception()  # looked at, so that one nobody waits for any more is no complaint


def _hangs(folder: str) -> RequestRefused:
    return RequestRefused(
        INTERNAL_ERROR,
        f"{folder} does not answer; see to its disk, then try again",
        {"reason": "no_answer", "retryable": True},
    )
