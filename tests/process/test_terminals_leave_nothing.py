"""Terminals opened and closed for long leave nothing behind."""

import asyncio
import sys
from contextlib import suppress

import psutil
import pytest

from tests.support.daemon import Client, Install

pytestmark = pytest.mark.process

#: rounds of open and close after which nothing may be left
ROUNDS = 200
#: terminals of a client at a time
AT_ONCE = 4


@pytest.mark.skipif(sys.platform != "linux", reason="counts what /proc and /dev/pts show")
async def test_two_hundred_rounds_leave_no_process_descriptor_or_pts(
    zygote_install: Install,
) -> None:
    install = zygote_install
    install.environment["HOME"] = str(install.base)
    await install.start_hub()
    for kind in ("worker", "pty"):
        await install.milestones.wait("zygote.ready", kind=kind)
    clients = [await install.client() for _ in range(AT_ONCE)]
    for client in clients:
        await client.initialize()
    await asyncio.gather(*(open_and_close(client, 2) for client in clients))
    before = await settled(install)
    await asyncio.gather(*(open_and_close(client, ROUNDS // AT_ONCE) for client in clients))
    after = await settled(install)
    assert after.keys() == before.keys()
    # fewer where one was about to be closed at the first look
    assert all(count <= before[pid] for pid, count in after.items())
    await install.stop()


async def open_and_close(client: Client, rounds: int) -> None:
    for number in range(rounds):
        opened = await client.ask("_lembas/terminal/open", {})
        about = {"terminalId": opened["terminalId"]}
        if number % 2:
            # `sleep 600`, in the foreground, or about to be
            client.hub.notify("_lembas/terminal/input", {**about, "data": "c2xlZXAgNjAwCg=="})
        client.hub.notify("_lembas/terminal/close", about)
        while (await client.messages.get()).method != "_lembas/terminal/exit":
            pass


async def settled(install: Install) -> dict[str, int]:
    """What the service holds once it has no terminal: its processes, and the descriptors of each.

    A terminal of the system is there as long as a descriptor of it, so they are counted too.
    """
    assert install.hub is not None
    hub = psutil.Process(install.hub.pid)
    async with asyncio.timeout(20):
        while (await install.status())["terminals"]:
            pass
        while True:
            with suppress(psutil.NoSuchProcess):  # gone while it was looked at: look again
                left = [hub, *hub.children(recursive=True), *of_the_shells(install)]
                if not {one.name() for one in left} & {"bash", "sleep"}:
                    return {str(one.pid): one.num_fds() for one in left}
            await asyncio.sleep(0)  # else the time-out has no say


def of_the_shells(install: Install) -> list[psutil.Process]:
    """What a terminal has started, whoever its parent is by now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            variables = process.environ()
            own = variables.get("LEMBAS_HOME") == install.environment["LEMBAS_HOME"]
            if own and variables.get("COLORTERM") == "truecolor":
                found.append(process)
    return found
