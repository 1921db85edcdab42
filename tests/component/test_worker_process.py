"""A worker as a process of its own, its hub played by the test."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lembasd.device.lock import all_gone
from lembasd.device.paths import Paths
from lembasd.protocol.control import Account, Remote, Settings
from lembasd.protocol.spawn import EXIT_UNKNOWN
from lembasd.store.sessions import probe
from tests.support.fake_hub import FakeHub

SESSION = "ses_" + "0" * 26
CLIENT = 3
_MAIN = """
import sys
from lembasd.protocol.spawn import Assignment
from lembasd.worker.main import main
sys.exit(main(Assignment(spawn=1, role="worker", channel=sys.argv[1], new=sys.argv[2] == "new")))
"""

pytestmark = pytest.mark.process


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    found = Paths(config=short_tmp / "config", state=short_tmp / "state", run=short_tmp / "run")
    found.make()
    return found


@asynccontextmanager
async def worker(paths: Paths, how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _MAIN,
        SESSION,
        how,
        env={"LEMBAS_HOME": str(paths.config.parent), "PATH": "/usr/bin:/bin"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def hub(paths: Paths) -> FakeHub:
    root = str(paths.config.parent.resolve())
    account = Account(base_url="http://127.0.0.1:1", token="secret", default_model="m")
    return FakeHub(
        paths.socket,
        Settings(remote=Remote(enabled=True, roots=[root], require_trust=False), account=account),
    )


@pytest.mark.spec("session/new: an id lasts")
async def test_a_killed_workers_session_opens_again_and_ends_at_sigterm(paths: Paths) -> None:
    async with hub(paths) as played:
        async with worker(paths, "new") as first:
            await played.until(lambda: played.peer)
            played.attach(CLIENT, protocol=3, local=True)
            made = await played.ask(CLIENT, "session/new", {"cwd": str(paths.config.parent)})
            assert made["sessionId"] == SESSION
            assert probe(paths, SESSION).locked_by == first.pid
            assert not all_gone(paths)
            first.kill()
            assert await first.wait() == -signal.SIGKILL
        assert probe(paths, SESSION).locked_by is None
        async with worker(paths, "open") as second:
            await played.until(lambda: len(played.hellos) == 2)
            assert played.hellos[1].session is not None
            assert played.hellos[1].session.epoch == 2
            second.send_signal(signal.SIGTERM)
            assert await second.wait() == 0
    assert all_gone(paths)


async def test_a_worker_for_a_session_that_is_not_there_says_so(paths: Paths) -> None:
    async with hub(paths), worker(paths, "open") as process:
        assert await process.wait() == EXIT_UNKNOWN
