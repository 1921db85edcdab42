"""Blocking calls beside the loop, each in a daemon thread of its own.

An executor's threads are joined when the interpreter ends, so that one call stuck on a dead network mount would keep
the process for ever. These are not: a process that ends leaves them behind.
"""

import _thread
import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: calls that may be under way in one process; more means that the disk does not answer, and raises TimeoutError
MAX_THREADS: Final = 16

_under_way = 0


async def run_apart(call: Callable[[], T]) -> T:
    """What `call` gives or raises. When the caller is cancelled the call goes on, and what it gives is dropped.

    Raises TimeoutError at once when too many calls are stuck already.
    """
    global _under_way  # noqa: PLW0603 - counts the threads of the process
    if _under_way >= MAX_THREADS:
        raise TimeoutError("the disk does not answer; see to it, then try again")
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    # not threading.Thread: nobody joins it, and what it needs around it costs each idle worker 0.2 MB
    _thread.start_new_thread(_work, (call, loop, future))
    _under_way += 1
    return await future


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
    global _under_way  # noqa: PLW0603 - counts the threads of the process
    _under_way -= 1
    if future.done():
        return
    if fault is None:
        future.set_result(value)
    else:
        future.set_exception(fault)
