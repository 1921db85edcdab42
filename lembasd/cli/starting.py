"""Starting a hub for a command that needs one."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from lembasd.cli import running
from lembasd.device.lock import hub_pid
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import HubRefuses, NoHub
from lembasd.protocol.errors import UsageError

#: a hub that takes no connection by then does not start
STARTS_S: Final = 15.0
_LOOK_S: Final = 0.05
_HUB: Final = (sys.executable, "-m", "lembasd.cli.service", "run")


async def connected(
    paths: Paths, client: HubClient, say: Callable[[str], None] = running.say_error
) -> None:
    """Connect to the hub. Where none runs one is started, in a session of its own, and `say` tells the person.

    Raises UsageError when it does not start or does not answer.
    """
    child: subprocess.Popen[bytes] | None = None
    loop = asyncio.get_running_loop()
    give_up = loop.time() + STARTS_S
    while True:
        # looked at each time: one that is killed lets go of its socket before its lock
        if child is None and hub_pid(paths) is None:
            say("lembasd was not running; it is started (`lembasd stop` ends it)")
            child = _start()
        try:
            await client.connect(paths.socket)
            return
        except HubRefuses as refused:
            raise UsageError(str(refused)) from refused
        except NoHub as error:
            if child is not None and child.poll() is not None and hub_pid(paths) is None:
                raise UsageError("lembasd could not be started; `lembasd run` says why") from error
            if loop.time() > give_up:
                raise UsageError(f"the hub does not answer: {error}") from error
        await asyncio.sleep(_LOOK_S)


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        _HUB,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
