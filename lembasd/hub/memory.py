"""Looking now and then at what each worker has resident in memory, where a bound is set."""

import asyncio
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from lembasd.hub.core import inputs
from lembasd.hub.runner import Hub

#: between two looks: a worker that grows by a gigabyte a second is ended after a few of them
LOOK_S: Final = 2.0
_PAGE_BYTES: Final = resource.getpagesize()


def resident(pid: int) -> int:
    """Bytes of a process that are in memory, those that it shares with others too; 0 when it is gone.

    Not its tools': those are their own processes. A hundred such looks take a millisecond.
    """
    if sys.platform == "linux":
        with suppress(OSError, IndexError, ValueError):
            return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
        return 0
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


async def watch(
    hub: Hub, look_s: float = LOOK_S, resident: Callable[[int], int] = resident
) -> None:
    """Tell the router of each worker's memory until cancelled."""
    while True:
        if hub.router.table.settings.worker_memory_bytes is not None:
            for process in list(hub.processes.values()):
                if process.channel.startswith("ses_"):
                    hub.feed(inputs.MemoryMeasured(process.channel, resident(process.pid)))
        await asyncio.sleep(look_s)
