"""A child process: started and known, or ended; read through a real pipe."""

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


async def started(
    starting: Coroutine[Any, Any, Process], end: Callable[[Process], Awaitable[object]]
) -> Process:
    """The process that is being started. Raises what starting it raises.

    Cancelled meanwhile, it has `end` end what has started: it must not run on, unknown to anybody.
    """
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(OSError, ValueError):
            await end(await task)
        raise


@asynccontextmanager
async def reading(read_end: int) -> AsyncIterator[asyncio.StreamReader]:
    """A reader of the pipe, which is closed in the end, whoever holds its other side still.

    Not uvloop's own pipes: they are sockets, and a socket cannot be opened as /dev/stdout.
    """
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()
