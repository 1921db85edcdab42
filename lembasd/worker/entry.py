"""From a fresh child to a worker process: what the kernel is told, the log, the lock, the loop."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from lembasd.device import cgroups, dumps, logging, runtime
from lembasd.device.lock import Membership
from lembasd.device.paths import Paths, find_paths


class Process(Protocol):
    """What runs in the loop to the end."""

    async def run(self) -> int: ...

    def stop(self, reason: str) -> None: ...


def enter(log_level: str, make: Callable[[Paths], Process], session_id: str = "") -> int:
    """Run the process that `make` makes in the loop; its exit code. `session_id`: whose tools it starts."""
    runtime.become_subreaper()
    dumps.forbid()
    paths = find_paths()
    logging.configure("worker", paths, level=log_level)
    membership = Membership.join(paths)
    if session_id and (groups := cgroups.find(paths)) is not None:
        groups.enter(session_id)
    try:
        return runtime.run(_main(paths, make))
    finally:
        membership.leave()


def _main(paths: Paths, make: Callable[[Paths], Process]) -> Callable[[], Coroutine[Any, Any, int]]:
    async def main() -> int:
        process = make(paths)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.stop, "the process was told to end")
        return await process.run()

    return main
