"""`lembasd stop`: ask the hub, or without one tell whoever is left, and wait until all is gone."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Final

import click

from lembasd.device.lock import all_gone, hub_pid, member_pids
from lembasd.device.paths import Paths, find_paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import (
    EXIT_DONE,
    EXIT_NOT_RUNNING,
    EXIT_REFUSED,
    RequestRefused,
    UsageError,
)

#: everything has ended by then, or something hangs and the person is told
STOP_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.02


async def stop_all() -> int:
    """Stop this install.

    Returns 3 when nothing ran. Raises UsageError when something does not end, naming it.
    """
    paths = find_paths()
    if all_gone(paths):
        click.echo("lembasd is not running")
        return EXIT_NOT_RUNNING
    pid = hub_pid(paths)
    if pid is None or not await _ask_hub(paths):
        paths.stopping.touch(mode=0o600)
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)  # with the marker it means stop, not leave
    end = time.monotonic() + STOP_TIMEOUT_S
    while not all_gone(paths):
        if time.monotonic() > end:
            raise UsageError(f"these processes do not end: {_left(paths)}; end them with `kill -9`")
        await asyncio.sleep(_LOOK_S)
    with suppress(FileNotFoundError):
        paths.stopping.unlink()
    click.echo("lembasd has stopped")
    return EXIT_DONE


async def _ask_hub(paths: Paths) -> bool:
    """Whether the hub took the request. Raises UsageError when it refuses."""
    client = HubClient()
    try:
        await client.connect(paths.socket)
        await client.request("_hub/stop", {}, STOP_TIMEOUT_S)
    except NoHub:
        return client.lost.is_set()  # it ended while it answered
    except TimeoutError:
        return False
    except RequestRefused as refused:
        raise UsageError(str(refused), EXIT_REFUSED) from refused
    finally:
        client.close()
    return True


def _left(paths: Paths) -> str:
    """Pids of the processes that share the members lock."""
    return ", ".join(str(pid) for pid in member_pids(paths)) or "(look with `ps`)"
