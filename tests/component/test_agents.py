"""Whether a process is an agent's: by those above it, by the locks they hold, by the marker."""

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from lembasd.device import cgroups, lock
from lembasd.device.paths import Paths
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello, SessionHello
from lembasd.store import agents
from lembasd.store.agents import Known
from lembasd.store.journal import Journal
from lembasd.worker.connection import Connection
from tests.support.delegated import delegated

SESSION: Final = "ses_" + "a" * 26
ROOT: Final = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    paths = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    paths.make()
    return paths


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that lives until the test is over."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(**variables: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(["sleep", "300"], env={**os.environ, **variables})
        started.append(child)
        return child

    yield begin
    for child in started:
        child.kill()
        child.wait()


@pytest.fixture
def journal(paths: Paths) -> Iterator[Journal]:
    """A session that this very process has open, as its worker has."""
    journal = Journal.create(paths, SESSION)
    yield journal
    journal.close()


@pytest.fixture(params=["proc", "psutil"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "1" if request.param == "psutil" else "")


def test_a_persons_process_is_none(look: None, paths: Paths, start: Start) -> None:
    pid = start().pid
    assert not agents.is_agents(paths, pid)
    assert not agents.is_below_worker(paths, pid)
    assert not agents.is_agents(paths, os.getpid())


def test_what_is_in_the_group_of_a_worker_is_one_though_nobody_is_above_it_any_more(
    paths: Paths, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "")
    pid = start().pid
    with delegated("agents") as service:
        base = cgroups.find(paths, service)
        assert base is not None
        worker = start().pid
        for holder, member in ((worker, pid), (worker, worker)):
            group = service / cgroups.base_name(paths) / f"{SESSION}.{holder}"
            group.mkdir(parents=True, exist_ok=True)
            (group / "cgroup.procs").write_text(str(member))
        assert agents.is_agents(paths, pid)
        assert agents.is_below_worker(paths, pid)
        assert not agents.is_below_worker(paths, worker)
        # of another install's session it is no agent here
        other = Paths(config=paths.config, state=paths.run, run=paths.run)
        assert not agents.is_agents(other, pid)
        assert not agents.is_below_worker(other, pid)


def test_what_is_below_the_holder_of_a_sessions_lock_is_one(
    look: None, paths: Paths, start: Start, journal: Journal
) -> None:
    pid = start().pid
    assert agents.is_agents(paths, pid)
    assert agents.is_below_worker(paths, pid)
    # the worker itself is not below one
    assert not agents.is_below_worker(paths, os.getpid())


def test_what_the_lock_files_text_says_is_no_matter_where_the_kernel_tells(
    paths: Paths, start: Start, journal: Journal
) -> None:
    (paths.session(SESSION) / "lock").write_text("1\n")
    assert agents.is_agents(paths, start().pid) == (lock.held_by([]) is not None)


def test_a_lock_that_nobody_holds_is_no_matter(paths: Paths, start: Start) -> None:
    Journal.create(paths, SESSION).close()
    assert not agents.is_agents(paths, start().pid)


def test_other_locks_are_no_matter(paths: Paths, start: Start, short_tmp: Path) -> None:
    Journal.create(paths, SESSION).close()
    with (short_tmp / "mine").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not agents.is_agents(paths, start().pid)


def test_the_marker_counts_for_sessions_of_this_install_alone(
    look: None, paths: Paths, start: Start
) -> None:
    pid = start(LEMBASD_SESSION=f"{SESSION}:1").pid
    assert not agents.is_agents(paths, pid)
    paths.session(SESSION).mkdir()
    assert agents.is_agents(paths, pid)
    assert not agents.is_agents(paths, start(LEMBASD_SESSION="../../etc:1").pid)


def test_what_is_gone_is_taken_for_one(look: None, paths: Paths, start: Start) -> None:
    child = start()
    child.kill()
    child.wait()
    assert agents.is_agents(paths, child.pid)
    assert agents.is_below_worker(paths, child.pid)


def test_a_hub_knows_its_own_processes(paths: Paths, start: Start) -> None:
    pid, me = start().pid, {os.getpid()}
    for known in (Known(workers=me), Known(starters=me)):
        assert agents.is_agents(paths, pid, known)
        assert agents.is_below_worker(paths, pid, known)
    # a terminal's shell is a person's, whatever is above the terminal
    assert not agents.is_agents(paths, pid, Known(terminals=me, starters={os.getppid()}))
    assert agents.is_agents(paths, pid, Known(starters={os.getppid()}))


# ── a worker looks at its hub ───────────────────────────────────────────────────────────────────

HUB: Final = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.support.fake_hub import FakeHub

async def main():
    async with FakeHub(Path(sys.argv[2])) as hub:
        print("listens", flush=True)
        while not hub.lost:
            await asyncio.wait_for(hub._news.wait(), 20)
            hub._news.clear()
        print(len(hub.hellos), len(hub.frames), flush=True)

asyncio.run(main())
"""


class Handler:
    """A worker that says hello and notes whether it has a hub."""

    def __init__(self) -> None:
        self.joined = False

    def hub_hello(self) -> Hello:
        return Hello(role="worker", build="x", pid=os.getpid(), session=SessionHello(SESSION, 1))

    def hub_joined(self) -> None:
        self.joined = True

    def hub_unspeakable(self) -> None: ...

    def hub_message(self, message: Envelope) -> None: ...

    def hub_writable(self) -> None: ...

    def hub_lost(self, reason: str) -> None: ...

    def stop_was_meant(self) -> None: ...


@pytest.mark.parametrize("below", [True, False], ids=["below the worker", "elsewhere"])
async def test_a_worker_takes_no_orders_from_a_hub_that_is_its_own_tool(
    paths: Paths, below: bool
) -> None:
    journal = Journal.create(paths, SESSION) if below else None
    hub = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HUB, str(ROOT), str(paths.socket)), stdout=asyncio.subprocess.PIPE
    )
    assert hub.stdout is not None
    assert await hub.stdout.readline() == b"listens\n"
    handler = Handler()
    connection = Connection(paths, handler)
    running = asyncio.create_task(connection.run())
    if below:
        assert (await hub.stdout.readline()).split()[1] == b"0"
        assert (handler.joined, bool(connection.refused)) == (False, True)
    else:
        async with asyncio.timeout(20):
            while not handler.joined:
                await asyncio.to_thread(os.sched_yield)
        await connection.finish(lambda: False)
        await hub.stdout.readline()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await hub.wait()
    if journal is not None:
        journal.close()
