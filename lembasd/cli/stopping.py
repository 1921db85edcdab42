"""`lembasd stop`: ask the hub, or without one tell whoever is left, and wait until all is gone.

Whatever hangs is killed: the hub first, for those it held see the marker and end in order, then everybody.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import click

from lembasd.cli.service_managers.api import chosen
from lembasd.device import cgroups
from lembasd.device.lock import all_gone, hub_pid, member_pids
from lembasd.device.paths import Paths, find_paths
from lembasd.hub.core.supervision import ASK_S, KILL_S, TERMINATE_S
from lembasd.hub.sweep import sweep
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import HubRefuses, NoHub
from lembasd.protocol.errors import (
    EXIT_DONE,
    EXIT_NOT_RUNNING,
    EXIT_REFUSED,
    RequestRefused,
    UsageError,
)

#: the hub answers at once; one that has not by then hangs
ANSWER_S: Final = 5.0
#: a hub that took the request is done by then, for it kills what does not end; one that is not hangs
HUB_ENDS_S: Final = ASK_S + TERMINATE_S + KILL_S + 2.0
#: what a hub that hangs may take after SIGTERM; then it is killed
DEAF_HUB_ENDS_S: Final = 3.0
#: without a hub, processes see the marker when they dial again; those that are there after so long are killed
MEMBERS_END_S: Final = ASK_S + TERMINATE_S
#: what is not gone so long after SIGKILL hangs in the kernel, and the person is told
GONE_S: Final = 5.0
_LOOK_S: Final = 0.02


async def stop_all() -> int:
    """Stop this install.

    Returns 3 when nothing ran. Raises UsageError when something cannot be ended, naming it.
    """
    paths = find_paths()
    started_by = await asyncio.to_thread(_stop_service, paths)
    if all_gone(paths) and not started_by:
        click.echo("lembasd is not running")
        return EXIT_NOT_RUNNING
    if hub_pid(paths) is not None:
        await _end_hub(paths)
    elif not all_gone(paths):
        _mark(paths)
    if not await _until(lambda: all_gone(paths), MEMBERS_END_S):
        for pid in member_pids(paths):
            _signal(pid, signal.SIGKILL)
        if not await _until(lambda: all_gone(paths), GONE_S):
            raise UsageError(f"these processes do not end: {_left(paths)}; end them with `kill -9`")
    await sweep(paths, cgroups.find(paths))
    with suppress(FileNotFoundError):
        paths.stopping.unlink()
    click.echo("lembasd has stopped" + (f"; {started_by}" if started_by else ""))
    return EXIT_DONE


def _stop_service(paths: Paths) -> str:
    """Have a service manager that runs it, or listens for it, do so no more; how it is started again ("": none did).

    The marker is there before, for a hub that is told to end by SIGTERM is to know that everything is. Raises UsageError.
    """
    manager = chosen(paths)
    if manager is None or not manager.is_installed() or not manager.is_active():
        return ""
    _mark(paths)
    manager.stop()
    return manager.starts_by


async def _end_hub(paths: Paths) -> None:
    """See the hub off, one way or another; at the end it holds its lock no more."""

    def is_gone() -> bool:
        return hub_pid(paths) is None

    ends_s = HUB_ENDS_S
    if not await _ask_hub(paths):
        ends_s = DEAF_HUB_ENDS_S
        _mark(paths)
        _signal(hub_pid(paths), signal.SIGTERM)  # with the marker it means stop, not leave
    if not await _until(is_gone, ends_s):
        _mark(paths)
        _signal(hub_pid(paths), signal.SIGKILL)
        await _until(is_gone, GONE_S)


def _mark(paths: Paths) -> None:
    """Leave the marker by which processes that lose their hub, or have none, know that it is meant."""
    paths.stopping.touch(mode=0o600)


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid:
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(pid, number)


async def _until(done: Callable[[], bool], within_s: float) -> bool:
    """Look until it is so; False when it is not in time."""
    end = time.monotonic() + within_s
    while not done():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(_LOOK_S)
    return True


async def _ask_hub(paths: Paths) -> bool:
    """Whether the hub took the request. Raises UsageError when it refuses."""
    client = HubClient()
    try:
        await client.connect(paths.socket)
        await client.request("_hub/stop", {}, ANSWER_S)
    except HubRefuses:
        return False  # it is of a version that cannot be talked to
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
