"""Asking the hub how it stands."""

import asyncio
import time
from typing import Any, Final

import msgspec

from lembasd.device.lock import hub_pid
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import HubRefuses, NoHub
from lembasd.protocol.errors import EXIT_NOT_RUNNING, UsageError

#: from taking the lock to listening a hub needs less
STARTING_S: Final = 3.0
_LOOK_S: Final = 0.05


async def ask(paths: Paths) -> dict[str, Any]:
    """What the hub that has the lock says of itself and all it runs.

    Raises UsageError when it has ended (EXIT_NOT_RUNNING) or does not answer.
    """
    client = HubClient()
    await _connect(client, paths)
    try:
        value: dict[str, Any] = msgspec.json.decode(await client.request("_hub/status", {}))
    except TimeoutError:
        raise UsageError(
            f"the hub (pid {hub_pid(paths)}) does not answer; look at `lembasd logs`, or `lembasd stop`"
        ) from None
    finally:
        client.close()
    return value


async def of_running(paths: Paths) -> dict[str, Any]:
    """As `ask`. Raises UsageError, EXIT_NOT_RUNNING, when no hub runs; never starts one."""
    if hub_pid(paths) is None:
        raise UsageError("lembasd is not running; start it with `lembasd run`", EXIT_NOT_RUNNING)
    return await ask(paths)


async def _connect(client: HubClient, paths: Paths) -> None:
    """Connect to the hub that has the lock; one that is just starting gets a moment.

    Raises UsageError when it does not answer.
    """
    end = time.monotonic() + STARTING_S
    while True:
        try:
            await client.connect(paths.socket)
            return
        except HubRefuses as refused:
            raise UsageError(str(refused)) from refused
        except NoHub as error:
            pid = hub_pid(paths)
            if pid is None:
                raise UsageError("the hub has just ended", EXIT_NOT_RUNNING) from error
            if time.monotonic() > end:
                raise UsageError(f"the hub (pid {pid}) does not answer: {error}") from error
        await asyncio.sleep(_LOOK_S)
