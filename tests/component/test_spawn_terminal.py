"""A real pty process from the real zygote and the real spare."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import structlog

from lembasd.device.paths import Paths, find_paths
from lembasd.hub.spawn.api import Spawner
from lembasd.hub.spawn.choose import make_spawner
from lembasd.protocol.control import Settings
from lembasd.protocol.spawn import Assignment
from tests.support.milestones import Milestones
from tests.support.terminal_hub import TerminalHub

TERMINAL = "term_000000000001"


class Told:
    """What a spawner told."""

    def __init__(self) -> None:
        self.started: dict[int, int] = {}
        self.ended: asyncio.Queue[tuple[int, int | None]] = asyncio.Queue()

    def process_started(self, spawn: int, pid: int) -> None:
        self.started[spawn] = pid

    def process_failed(self, spawn: int, reason: str) -> None:
        raise AssertionError(reason)

    def process_ended(self, pid: int, status: int | None) -> None:
        self.ended.put_nowait((pid, status))


@pytest.fixture(params=["zygote", "portable"])
async def spawner(
    request: pytest.FixtureRequest, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Spawner, Told, Paths, Milestones]]:
    portable = request.param == "portable"
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp))
    monkeypatch.setenv("HOME", str(short_tmp))
    monkeypatch.setenv("LEMBASD_PORTABLE", "1" if portable else "")
    paths, told = find_paths(), Told()
    paths.make()
    async with Milestones(short_tmp / "m") as milestones:
        for key, value in milestones.environment.items():
            monkeypatch.setenv(key, value)
        made = make_spawner(paths, structlog.get_logger(), portable=portable)
        made.begin(told)
        try:
            ready = "spare.ready" if portable else "zygote.ready"
            for kind in ("pty", "worker"):
                await milestones.wait(ready, kind=kind)
            helpers = [psutil.Process(pid) for pid in made.helper_pids()]
            yield made, told, paths, milestones
            made.release()
        finally:
            made.close()
        _gone, left = await asyncio.to_thread(psutil.wait_procs, helpers, 10)
        assert left == []


async def test_a_terminal_is_started_opened_and_ended(
    spawner: tuple[Spawner, Told, Paths, Milestones],
) -> None:
    made, told, paths, milestones = spawner
    async with TerminalHub(paths) as hub:
        made.start(Assignment(spawn=1, role="pty", channel=TERMINAL))
        await hub.until(lambda: bool(hub.hellos))
        hub.settings(Settings())
        hub.attach(1)
        answer = await hub.ask("_lembas/terminal/open", {"cwd": str(paths.state)})
        assert not answer.error, answer.error
        shell = (await milestones.wait("pty.shell_started"))["shell_pid"]
        hub.notify("_lembas/terminal/input", {"terminalId": TERMINAL, "data": b"echo o''k; exit\n"})
        await hub.until(lambda: bool(hub.said("_lembas/terminal/exit")))
        assert b"ok" in hub.output()
        async with asyncio.timeout(10):
            assert await told.ended.get() == (told.started[1], 0)
        assert not psutil.pid_exists(shell)


async def test_a_helper_has_one_thread(
    spawner: tuple[Spawner, Told, Paths, Milestones],
) -> None:
    made, _told, _paths, _milestones = spawner
    threads = {one.kind: psutil.Process(one.pid).num_threads() for one in made.helpers()}
    assert threads == {"worker": 1, "pty": 1}


def test_the_helper_of_terminals_loads_no_engine() -> None:
    code = (
        "import sys; from lembasd.zygote.warm import warm; warm('pty', rehearsed=False); "
        "print([one for one in sys.modules if one.startswith(('lembasd.engine', 'lembasd.worker', 'httpx'))])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
