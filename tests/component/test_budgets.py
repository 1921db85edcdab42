"""What a hub does when the machine runs short: disk and descriptors."""

import asyncio
import errno
import os
import resource
import subprocess
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from structlog.typing import FilteringBoundLogger

from lembasd.device import credentials, runtime
from lembasd.device.credentials import Credentials
from lembasd.device.paths import Paths
from lembasd.device.settings import SettingsSource
from lembasd.hub import budgets
from lembasd.hub.alarms import Alarms
from lembasd.hub.core.budgets import Used
from lembasd.hub.spawn.watch import PidfdWatcher
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import RequestRefused
from tests.support.hub_process import SOON_S, RunningHub

linux = pytest.mark.skipif(sys.platform != "linux", reason="pidfds and /proc are Linux's")


@pytest.fixture
async def hub(short_tmp: Path) -> AsyncIterator[RunningHub]:
    running = RunningHub(short_tmp, Settings())
    listening = await serve(bind(running.paths.socket), running.server, AssemblyBudget())
    yield running
    running.close()
    listening.close()
    running.hub.close()


@contextmanager
def descriptors(most: int) -> Iterator[None]:
    """None is left to open in this process over so many; what is open can be used."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Lines:
    """A log of which a test waits for the events."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[str] = asyncio.Queue()

    def error(self, event: str, **_fields: object) -> None:
        self.events.put_nowait(event)

    info = warning = error

    async def next(self) -> str:
        async with asyncio.timeout(SOON_S):
            return await self.events.get()


# ── disk ────────────────────────────────────────────────────────────────────────────────────────


async def test_with_hardly_any_room_left_no_session_is_made_and_workers_are_told(
    hub: RunningHub,
) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    hub.hub.disk_is_low(True)
    while b'"low_disk":true' not in (await worker.next("settings")).payload:
        pass
    with pytest.raises(RequestRefused) as refused:
        await client.ask("session/new", {"cwd": "/p"})
    assert (refused.value.code, refused.value.data) == (
        -32603,
        {"reason": "store", "retryable": True},
    )
    assert "free some space" in refused.value.message
    hub.hub.disk_is_low(False)
    while b"low_disk" in (await worker.next("settings")).payload:
        pass
    await hub.session(client)


async def test_what_is_short_is_looked_for_again_and_again(hub: RunningHub) -> None:
    lines = Lines()
    hub.hub.alarms = Alarms(cast("FilteringBoundLogger", lines))
    watching = asyncio.create_task(budgets.watch(hub.hub, hub.paths.state, look_s=0.01))
    with descriptors(budgets.open_descriptors().used + 3):
        assert await lines.next() == "budget_low"
        assert [one.kind for one in hub.hub.alarms.raised] == ["descriptors"]
    assert await lines.next() == "alarm_over"
    assert hub.hub.alarms.raised == []
    watching.cancel()


def test_there_is_a_measure_of_everything_that_can_be_measured(tmp_path: Path) -> None:
    there = budgets.measure(tmp_path)
    assert there.disk is not None
    assert there.disk.free_bytes > 0
    assert there.descriptors is not None
    assert 0 < there.descriptors.used < there.descriptors.most
    assert budgets.measure(tmp_path / "gone").disk is None


# ── descriptors ─────────────────────────────────────────────────────────────────────────────────


_CROWD = """
import socket, sys, time
held = [socket.socket(socket.AF_UNIX) for _ in range(60)]
for one in held:
    one.connect(sys.argv[1])
print("there", flush=True)
time.sleep(0.5)
print("waited", flush=True)
input()
"""


async def test_connections_without_a_descriptor_for_them_cost_nothing_and_end_no_listening(
    hub: RunningHub,
) -> None:
    crowd = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CROWD, str(hub.paths.socket), stdin=PIPE, stdout=PIPE
    )
    assert crowd.stdin is not None
    assert crowd.stdout is not None
    async with asyncio.timeout(SOON_S):
        with descriptors(budgets.open_descriptors().used + 20):
            assert await crowd.stdout.readline() == b"there\n"
            used = time.process_time()
            assert await crowd.stdout.readline() == b"waited\n"
            assert time.process_time() - used < 0.2
        crowd.stdin.close()
        await crowd.wait()
    await hub.client()


@linux
async def test_a_process_that_no_descriptor_can_be_had_for_is_watched_as_soon_as_one_can() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=PIPE)
    assert child.stdin is not None
    ended: asyncio.Queue[int] = asyncio.Queue()
    watcher = PidfdWatcher(lambda pid, _status: ended.put_nowait(pid))
    with descriptors(3):
        watcher.watch(child.pid)
        watcher.watch(child.pid)
    assert watcher.pids == {child.pid}
    assert ended.empty()
    child.stdin.close()
    async with asyncio.timeout(SOON_S):
        assert await ended.get() == child.pid
        await child.wait()
    with descriptors(3):
        watcher.watch(os.getpid())
    watcher.close()
    assert watcher.pids == set()


def test_when_no_descriptor_is_left_all_of_them_are_in_use() -> None:
    with descriptors(3):
        assert budgets.open_descriptors() == Used(3, 3)


def test_settings_that_cannot_be_read_for_want_of_descriptors_keep_the_login(
    tmp_path: Path,
) -> None:
    paths = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    paths.make()
    login = Credentials(server="https://lembas.example.org", token="t")
    credentials.store(paths.credentials_file, login)
    source = SettingsSource(paths)
    assert source.current().account == login.account()
    paths.config_file.write_text("mode: edit\n", encoding="utf-8")
    with descriptors(3):
        short = source.current()
    assert (short.account, short.mode) == (login.account(), "manual")
    assert os.strerror(errno.EMFILE) in (source.problem or "")
    now = source.current()
    assert (now.account, now.mode, source.problem) == (login.account(), "edit", None)


_BOUNDS = """
import os, resource
from lembasd.device import runtime
most = lambda: resource.getrlimit(resource.RLIMIT_NOFILE)
print(most()[0])
runtime.raise_descriptors()
print(most()[0])
runtime.raise_descriptors()
runtime.restore_descriptors()
print(most()[0])
"""


def test_the_hub_takes_all_descriptors_it_may_and_what_it_starts_gets_the_persons_bound() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = runtime.MAX_DESCRIPTORS
    most = most if hard == resource.RLIM_INFINITY else min(hard, most)
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -Sn 256; exec "$0" -c "$1"', sys.executable, _BOUNDS],
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout.split() == [b"256", str(most).encode(), b"256"]


def test_without_a_bound_to_give_back_none_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEMBASD_NOFILE", raising=False)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    runtime.restore_descriptors()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
