"""Blocking calls beside the loop, each in a daemon thread of its own.

An executor's threads are joined when the interpreter ends, so that one call stuck on a dead network mount would keep
the process for ever. These are not: a process that ends leaves them behind.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, TypeVar

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

    def finish(deliver: Callable[[], None]) -> None:
        global _under_way  # noqa: PLW0603 - runs in the loop
        _under_way -= 1
        if not future.done():
            deliver()

    def work() -> None:
        deliver: Callable[[], None]
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            failure = error
            deliver = lambda: future.set_exception(failure)  # noqa: E731
        else:
            deliver = lambda: future.set_result(value)  # noqa: E731
        try:
            loop.call_soon_threadsafe(finish, deliver)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    _under_way += 1
    threading.Thread(target=work, name="apart", daemon=True).start()
    return await future
