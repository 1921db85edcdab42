"""A real worker that is stopped and goes on, under a hub in this process that beats fast."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from lembasd.hub.heartbeat import Pulse
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.protocol.control import Account, Remote, Settings
from lembasd.protocol.spawn import Assignment
from tests.support.hub_process import RecordingClient, RunningHub
from tests.support.milestones import Milestones

pytestmark = pytest.mark.process

BEAT_S = 0.2
_WORKER = """
import sys
from lembasd.protocol.spawn import Assignment
from lembasd.worker.main import main
sys.exit(main(Assignment(spawn=int(sys.argv[1]), role="worker", channel=sys.argv[2], new=True)))
"""


@pytest.fixture
async def milestones(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Milestones]:
    async with Milestones(short_tmp / "m") as one:
        for name, value in one.environment.items():
            monkeypatch.setenv(name, value)
        yield one


@pytest.fixture
async def hub(short_tmp: Path, milestones: Milestones) -> AsyncIterator[RunningHub]:
    account = Account(base_url="http://127.0.0.1:1", token="secret", default_model="m")
    remote = Remote(enabled=True, roots=[str(short_tmp)], require_trust=False)
    running = RunningHub(short_tmp, Settings(remote=remote, account=account))
    # as a worker finds them
    (short_tmp / "h").mkdir()
    for name, here in (("config", "c"), ("state", "s"), ("run", "r")):
        (short_tmp / "h" / name).symlink_to(short_tmp / here)
    listening = await serve(bind(running.paths.socket), running.server, AssemblyBudget())
    beating = asyncio.create_task(Pulse(running.hub, BEAT_S).run())
    yield running
    beating.cancel()
    running.close()
    listening.close()
    running.hub.close()


async def worker(
    hub: RunningHub, client: RecordingClient, home: Path
) -> tuple[str, asyncio.subprocess.Process]:
    """A session that the client makes, and its worker."""
    asked = client.hub.start("session/new", {"cwd": str(home)})
    assignment: Assignment = await hub.starter.next()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _WORKER,
        str(assignment.spawn),
        assignment.channel,
        env={**os.environ, "LEMBAS_HOME": str(home / "h"), "HOME": str(home)},
        start_new_session=True,
    )
    hub.hub.children.process_started(assignment.spawn, process.pid)
    made = msgspec.json.decode(await asyncio.wait_for(asked, 20))
    return str(made["sessionId"]), process


async def notice(client: RecordingClient, level: str) -> None:
    """Wait until the client is shown a notice of this level. On a busy machine there may be others before."""
    while True:
        event = (await client.next("_lembas/event"))["event"]
        if event["type"] == "notice" and event["level"] == level:
            return


async def test_a_worker_that_is_stopped_is_told_of_and_goes_on_as_if_nothing_was(
    hub: RunningHub, milestones: Milestones, short_tmp: Path
) -> None:
    client = await hub.client()
    session, process = await worker(hub, client, short_tmp)
    channel = hub.hub.router.table.channels[session]
    try:
        for _ in range(2):
            os.kill(process.pid, signal.SIGSTOP)
            while not channel.unresponsive:
                await milestones.wait("hub.process_unresponsive", channel=session)
            asked = client.hub.start(
                "_lembas/session/title", {"sessionId": session, "title": "waits"}
            )
            await notice(client, "warning")
            os.kill(process.pid, signal.SIGCONT)
            await notice(client, "info")
            assert msgspec.json.decode(await asyncio.wait_for(asked, 20)) == {"title": "waits"}
            while channel.unresponsive:
                await milestones.wait("hub.process_responsive", channel=session)
        assert process.returncode is None
    finally:
        process.kill()
        await process.wait()
