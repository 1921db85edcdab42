"""Blocking calls beside the loop, each in a daemon thread of its own.

An executor's threads are joined when the interpreter ends, so that one call stuck on a dead network mount would keep
the process for ever. These are not: a process that ends leaves them behind.
"""

import _thread
import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: calls that may be under way in one process; the next ones wait for them
MAX_THREADS: Final = 16
#: seconds that a call waits for its turn; by then so many are stuck that the disk does not answer
TURN_S: Final = 2.0

_under_way = 0
#: calls that wait for their turn, in their order; one that has it is not in here any more
_waiting: deque[asyncio.Future[None]] = deque()


async def run_apart(call: Callable[[], T], turn_s: float = TURN_S) -> T:
    """What `call` gives or raises. When the caller is cancelled the call goes on, and what it gives is dropped.

    Raises TimeoutError when so many calls are stuck already that its turn does not come within `turn_s`.
    """
    global _under_way  # noqa: PLW0603 - counts the threads of the process
    if _under_way < MAX_THREADS:
        _under_way += 1
    else:
        await _turn(turn_s)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    try:
        # not threading.Thread: nobody joins it, and what it needs around it costs each idle worker 0.2 MB
        _thread.start_new_thread(_work, (call, loop, future))
    except RuntimeError:  # no more threads
        _pass_on()
        raise
    return await future


async def _turn(turn_s: float) -> None:
    """Wait for the place of a call that ends."""
    mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _waiting.append(mine)
    try:
        async with asyncio.timeout(turn_s):
            await mine
    except (TimeoutError, asyncio.CancelledError) as ended:
        if mine.cancelled():
            _waiting.remove(mine)
        else:
            _pass_on()  # it came in that moment
        if isinstance(ended, TimeoutError):
            raise TimeoutError("the disk does not answer; see to it, then try again") from None
        raise


def _pass_on() -> None:
    """Give the place of a call that has ended to the one that waits longest."""
    global _under_way  # noqa: PLW0603 - counts the threads of the process
    waiting = next((one for one in _waiting if not one.done()), None)
    if waiting is None:
        _under_way -= 1
        return
    _waiting.remove(waiting)
    waiting.set_result(None)


def _work(
    call: Callable[[], Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]
) -> None:
    """In the thread."""
    value: Any = None
    fault: BaseException | None = None
    try:
        value = call()
    except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
        fault = error
    try:
        loop.call_soon_threadsafe(_finish, future, value, fault)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more


def _finish(future: asyncio.Future[Any], value: object, fault: BaseException | None) -> None:
    """In the loop."""
    _pass_on()
    if future.done():
        return
    if fault is None:
        future.set_result(value)
    else:
        future.set_exception(fault)
