"""Which way processes are started here."""

import os
import sys

from structlog.typing import FilteringBoundLogger

from lembasd.device.paths import Paths
from lembasd.hub.spawn.api import Spawner
from lembasd.hub.spawn.launch import Command, helper_command
from lembasd.hub.spawn.spare import SpareSpawner
from lembasd.hub.spawn.zygote import ZygoteSpawner
from lembasd.protocol.takeover import Takeover


def portable() -> bool:
    """Whether this platform, or LEMBASD_PORTABLE=1, asks for the ways that work everywhere."""
    return sys.platform != "linux" or bool(os.environ.get("LEMBASD_PORTABLE"))


def make_spawner(
    paths: Paths,
    log: FilteringBoundLogger,
    *,
    portable: bool,
    command: Command = helper_command,
    takeover: Takeover | None = None,
) -> Spawner:
    """Exec the helpers and give what starts processes by them; call it before the loop. Raises OSError.

    The log directory exists; the caller's `Spawner.begin` follows in the loop. `takeover`: what an earlier version left
    in this process.
    """
    if portable:
        return SpareSpawner(paths, command, log, takeover)
    return ZygoteSpawner(paths, command, log, takeover)
