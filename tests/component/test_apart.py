"""Blocking calls in threads of their own: more than may run at once wait for their turn."""

import asyncio
import threading
from functools import partial

import pytest

from lembasd.store.apart import MAX_THREADS, run_apart


async def test_as_many_as_come_are_all_done_in_their_order() -> None:
    full = threading.Barrier(MAX_THREADS + 1)
    began: list[int] = []

    def call(number: int) -> int:
        began.append(number)
        if number < MAX_THREADS:
            full.wait(10)
        return number

    many = 5 * MAX_THREADS
    calls = [asyncio.ensure_future(run_apart(partial(call, number))) for number in range(many)]
    await asyncio.to_thread(full.wait, 10)
    assert sorted(began[:MAX_THREADS]) == list(range(MAX_THREADS))
    assert await asyncio.gather(*calls) == list(range(many))


async def test_where_all_are_stuck_the_next_is_told_so_and_its_place_is_not_lost() -> None:
    go = threading.Event()
    calls = [asyncio.ensure_future(run_apart(lambda: go.wait(10))) for _ in range(MAX_THREADS)]
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError, match="the disk does not answer"):
        await run_apart(lambda: None, turn_s=0.01)
    left = asyncio.ensure_future(run_apart(lambda: None))
    await asyncio.sleep(0)
    left.cancel()
    waits = asyncio.ensure_future(run_apart(lambda: "done"))
    await asyncio.sleep(0)
    go.set()
    assert await waits == "done"
    assert left.cancelled()
    await asyncio.gather(*calls)
    # every place is free again
    assert (
        await asyncio.gather(*(run_apart(lambda: 1) for _ in range(MAX_THREADS)))
        == [1] * MAX_THREADS
    )
