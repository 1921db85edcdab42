"""Looking now and then at what the machine has left, and telling of what is short."""

import asyncio
import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, assert_never

from lembasd.device import milestones
from lembasd.hub.core import budgets
from lembasd.hub.core.budgets import Budgets, Disk, Measured, Used
from lembasd.hub.runner import Hub
from lembasd.store.apart import run_apart

#: between two looks: a disk that fills is seen before a turn that begins fills the rest
LOOK_S: Final = 2.0
#: this process' descriptors, on Linux and on macOS
_OPEN_FILES: Final = "/dev/fd"
_TERMINALS: Final = Path("/proc/sys/kernel/pty")


def open_descriptors() -> Used:
    """How many descriptors this process has open, of how many it may; all of them when it cannot even look."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        # without that of the look itself
        return Used(len(os.listdir(_OPEN_FILES)) - 1, most)  # noqa: PTH208
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return Used(most, most)
        raise


def measure(state: Path) -> Measured:
    """What there is now. Blocks, for as long as the disk of `state` does; never raises."""
    disk = terminals = descriptors = None
    with suppress(OSError):
        about = os.statvfs(state)
        files = about.f_favail if about.f_files > 0 else None
        disk = Disk(about.f_bavail * about.f_frsize, files)
    with suppress(OSError):
        descriptors = open_descriptors()
    with suppress(OSError, ValueError):  # not on macOS
        terminals = Used(*(int((_TERMINALS / one).read_text("ascii")) for one in ("nr", "max")))
    return Measured(disk, descriptors, terminals)


async def watch(hub: Hub, state: Path, look_s: float = LOOK_S) -> None:
    """Raise and end the hub's alarms until cancelled. A disk that hangs is waited for."""
    machine = Budgets()
    while True:
        with suppress(TimeoutError):  # every thread waits for a disk
            for effect in machine.handle(await run_apart(lambda: measure(state))):
                _perform(hub, machine, effect)
        await asyncio.sleep(look_s)


def _perform(hub: Hub, machine: Budgets, effect: budgets.Effect) -> None:
    match effect:
        case budgets.Began(kind, text):
            hub.alarms.begin(kind, "", text)
        case budgets.Over(kind):
            hub.alarms.over(kind, "")
        case _:
            assert_never(effect)
    if effect.kind == "disk":
        hub.disk_is_low(machine.low_disk)
        milestones.reached("hub.disk_low" if machine.low_disk else "hub.disk_enough")
