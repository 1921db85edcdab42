"""Starting processes and learning of their ends, on both ways, with real zygotes, spares and children."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog

from lembasd import __version__
from lembasd.device import process_tree, runtime
from lembasd.device.lock import Membership, all_gone
from lembasd.device.paths import Paths, find_paths
from lembasd.hub.spawn.api import Spawner
from lembasd.hub.spawn.choose import make_spawner
from lembasd.ipc import listen
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.peer import Peer
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello
from lembasd.protocol.spawn import Assignment
from lembasd.protocol.takeover import Helper, Takeover
from tests.support.descriptors import none_left
from tests.support.milestones import Milestones
from tests.support.stub_process import order

TIMEOUT_S = 15.0
ROOT = Path(__file__).parents[2]


def stub_command(kind: str, handle: int, spare: bool) -> list[str]:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.stub_process import main; sys.exit(main())"
    return [sys.executable, "-c", code, str(handle), kind, str(spare)]


class Record:
    """What a spawner told, and who said hello on the socket."""

    def __init__(self) -> None:
        self.started: dict[int, int] = {}
        self.failed: dict[int, str] = {}
        self.ended: dict[int, int | None] = {}
        self.hellos: dict[int, Peer] = {}
        self._news = asyncio.Event()

    def process_started(self, spawn: int, pid: int) -> None:
        self.started[spawn] = pid
        self._news.set()

    def process_failed(self, spawn: int, reason: str) -> None:
        self.failed[spawn] = reason
        self._news.set()

    def process_ended(self, pid: int, status: int | None) -> None:
        self.ended[pid] = status
        self._news.set()

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        peer.send_hello(Hello(role="hub", build=__version__, pid=os.getpid()))
        self.hellos[hello.spawn] = peer
        self._news.set()

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        pass

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        pass

    def changed(self) -> None:
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._news.clear()
                await self._news.wait()


class Scene:
    """A spawner with its helpers, a listening socket, and what they told."""

    def __init__(self, spawner: Spawner, paths: Paths, milestones: Milestones) -> None:
        self.spawner = spawner
        self.paths = paths
        self.milestones = milestones
        self.record = Record()
        self._number = 0

    def start(self, name: str) -> int:
        self._number += 1
        self.spawner.start(Assignment(spawn=self._number, role="worker", channel=order(name)))
        return self._number

    async def running(self, name: str) -> int:
        """Start a stub; its pid, once it has said hello."""
        number = self.start(name)
        await self.record.until(
            lambda: number in self.record.hellos and number in self.record.started
        )
        pid = self.record.started[number]
        assert self.record.hellos[number].pid == pid
        return pid

    async def end_of(self, pid: int) -> int | None:
        await self.record.until(lambda: pid in self.record.ended)
        return self.record.ended[pid]


async def scene(
    short_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    portable: bool,
    takeover: Takeover | None = None,
) -> AsyncIterator[Scene]:
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp / "h"))
    monkeypatch.setenv("LEMBASD_PORTABLE", "1" if portable else "")
    paths = find_paths()
    paths.make()
    async with Milestones(short_tmp / "m") as milestones:
        for key, value in milestones.environment.items():
            monkeypatch.setenv(key, value)
        log: Any = structlog.get_logger()
        spawner = make_spawner(
            paths, log, portable=portable, command=stub_command, takeover=takeover
        )
        one = Scene(spawner, paths, milestones)
        listener = listen.bind(paths.socket)
        server = await listen.serve(listener, one.record, AssemblyBudget())
        spawner.on_change = one.record.changed
        spawner.begin(one.record)
        await one.record.until(
            lambda: sum(one.ready and not one.earlier for one in spawner.helpers()) == 2
        )
        try:
            yield one
            spawner.release()
            for peer in one.record.hellos.values():
                peer.close()
            await asyncio.to_thread(wait_all_gone, paths)
        finally:
            spawner.close()
            server.close()


def wait_all_gone(paths: Paths) -> None:
    """Wait until no process of the scene is left: they all share the members lock."""
    end = time.monotonic() + TIMEOUT_S
    while not all_gone(paths):
        mine = [one for one in psutil.process_iter() if "stub_process" in " ".join(_line(one))]
        assert time.monotonic() < end, f"still running: {mine}"
        psutil.wait_procs(mine, 0.1)


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture(params=["zygote", "portable"])
async def both(
    request: pytest.FixtureRequest, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    async for one in scene(short_tmp, monkeypatch, portable=request.param == "portable"):
        yield one


@pytest.fixture
async def zygotes(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async for one in scene(short_tmp, monkeypatch, portable=False):
        yield one


def gone(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


async def test_a_process_is_started_and_says_hello(both: Scene) -> None:
    pid = await both.running("wait")
    assert not gone(pid)
    assert both.record.failed == {}


async def test_an_exit_code_is_learnt(both: Scene) -> None:
    number = both.start("end")
    await both.record.until(lambda: number in both.record.started)
    status = await both.end_of(both.record.started[number])
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == 7


async def test_a_crash_has_an_exit_code_of_its_own_and_leaves_its_trace(both: Scene) -> None:
    number = both.start("crash")
    await both.record.until(lambda: number in both.record.started)
    status = await both.end_of(both.record.started[number])
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == 70
    assert "RuntimeError: as ordered" in (both.paths.log / "crash.log").read_text()


async def test_a_killed_process_has_its_signal_as_status(both: Scene) -> None:
    pid = await both.running("wait")
    os.kill(pid, signal.SIGKILL)
    status = await both.end_of(pid)
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


async def test_many_are_started_at_once(both: Scene) -> None:
    numbers = [both.start("wait") for _ in range(4)]
    await both.record.until(lambda: set(numbers) <= set(both.record.hellos))
    assert len(set(both.record.started.values())) == 4


async def test_a_child_has_a_session_default_signals_and_nothing_open_but_its_own(
    both: Scene,
) -> None:
    await both.running("wait")
    said = await both.milestones.wait("stub.runs")
    assert (said["leader"], said["terminates"], said["blocked"]) == (True, True, 0)
    # a closed socket and a limit of a file's length are errors, not ends
    assert said["errors"] == ["SIGPIPE", "SIGXFSZ"]
    crash_log, lock = str(both.paths.log / "crash.log"), str(both.paths.members_lock)
    files = [one for one in said["open"] if not one.startswith("socket:")]
    assert files == sorted(["/dev/null", "/dev/null", crash_log, lock])
    sockets = len(said["open"]) - len(files)
    assert sockets == (0 if not os.environ.get("LEMBASD_PORTABLE") else 1)


async def test_a_tool_that_kept_its_marker_ends_with_its_worker(both: Scene) -> None:
    pid = await both.running("marked")
    (tool,) = [one.pid for one in process_tree.by_marker(order("marked"))]
    os.kill(pid, signal.SIGKILL)
    await both.end_of(pid)
    assert gone(tool)


async def test_a_tool_that_cleared_its_environment_ends_with_its_worker(zygotes: Scene) -> None:
    pid = await zygotes.running("cleared")
    other = await zygotes.running("wait")
    (tool,) = process_tree.children(pid)
    os.kill(pid, signal.SIGKILL)
    await zygotes.end_of(pid)
    assert gone(tool)
    assert not gone(other)


async def test_a_helper_that_was_killed_is_started_again(both: Scene) -> None:
    helpers = {one.kind: one.pid for one in both.spawner.helpers()}
    os.kill(helpers["worker"], signal.SIGKILL)
    await both.record.until(
        lambda: any(
            one.kind == "worker" and one.ready and one.pid != helpers["worker"]
            for one in both.spawner.helpers()
        )
    )
    await both.running("wait")


async def test_what_a_killed_zygote_was_asked_for_is_started_once_by_the_next(
    zygotes: Scene,
) -> None:
    assert runtime.become_subreaper()
    (zygote,) = [one.pid for one in zygotes.spawner.helpers() if one.kind == "worker"]
    numbers = [zygotes.start("wait") for _ in range(20)]
    # some are forked and told, some forked and not told, some not forked
    await zygotes.record.until(lambda: len(zygotes.record.started) >= 3)
    os.kill(zygote, signal.SIGKILL)
    await zygotes.record.until(
        lambda: set(numbers) <= set(zygotes.record.started) & set(zygotes.record.hellos)
    )
    assert zygotes.record.failed == {}
    told = set(zygotes.record.started.values())
    helpers = {one.pid for one in zygotes.spawner.helpers()}
    stubs = [pid for pid in process_tree.descendants(os.getpid()) if not gone(pid)]
    assert set(stubs) - helpers == told


async def test_statuses_are_still_learnt_when_the_zygote_was_killed(zygotes: Scene) -> None:
    assert runtime.become_subreaper()
    pid = await zygotes.running("marked")
    (tool,) = process_tree.children(pid)
    (zygote,) = [one.pid for one in zygotes.spawner.helpers() if one.kind == "worker"]
    os.kill(zygote, signal.SIGKILL)
    await zygotes.record.until(
        lambda: any(one.kind == "worker" and one.pid != zygote for one in zygotes.spawner.helpers())
    )
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)
    status = await zygotes.end_of(pid)
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert gone(tool)


async def test_the_end_of_a_process_of_another_hub_is_told_without_a_status(both: Scene) -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 600 & echo $!", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    await process.wait()
    runs_under_us = psutil.Process(pid).ppid() == os.getpid()
    both.spawner.watch(pid)
    os.kill(pid, signal.SIGKILL)
    status = await both.end_of(pid)
    assert status == (signal.SIGKILL if runs_under_us and status is not None else None)


async def test_a_process_is_watched_once_there_are_descriptors_for_it(zygotes: Scene) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        with none_left():
            zygotes.spawner.watch(process.pid)
            for _ in range(3):  # what is told is told in the next turn of the loop
                await asyncio.sleep(0)
        assert process.pid not in zygotes.record.ended
    finally:
        process.kill()
    await zygotes.end_of(process.pid)
    await process.wait()


async def test_after_a_release_nothing_is_started_and_ends_are_still_told(both: Scene) -> None:
    pid = await both.running("wait")
    both.spawner.release()
    number = both.start("wait")
    await both.record.until(lambda: number in both.record.failed)
    os.kill(pid, signal.SIGKILL)
    assert await both.end_of(pid) == signal.SIGKILL


async def test_helpers_go_when_the_hub_is_gone_and_nobody_needs_them(both: Scene) -> None:
    share = Membership.join(both.paths)
    await both.running("wait")
    both.spawner.release()
    share.leave()
    assert not all_gone(both.paths)
    for peer in both.record.hellos.values():
        peer.close()
    await asyncio.to_thread(wait_all_gone, both.paths)
    assert all_gone(both.paths)


# ── what an earlier version has left in this process ────────────────────────────────────────────


class Left:
    """A helper and a terminal's process of an earlier version: children of this process that nobody here started."""

    def __init__(self) -> None:
        ends = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"]
        self._children = [
            subprocess.Popen(ends, stdin=subprocess.PIPE, start_new_session=True) for _ in range(2)
        ]
        self.helper, self.process = (one.pid for one in self._children)
        self.takeover = Takeover("0.9", 3, 4, 5, helpers=[Helper(self.helper, "pty", "0.9")])

    def end(self) -> None:
        for child in self._children:
            if child.stdin is not None:
                child.stdin.close()
            child.returncode = 0  # whoever takes over reaps it

    def reap(self, pid: int) -> None:
        os.waitpid(pid, 0)


@pytest.fixture(params=["zygote", "portable"])
async def after_another(
    request: pytest.FixtureRequest, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Scene, Left]]:
    left, portable = Left(), request.param == "portable"
    async for one in scene(short_tmp, monkeypatch, portable=portable, takeover=left.takeover):
        yield one, left


async def test_helpers_and_processes_of_an_earlier_version_are_known_and_reaped(
    after_another: tuple[Scene, Left],
) -> None:
    here, left = after_another
    spawner = here.spawner
    spawner.watch(left.process, "term_x")
    earlier = [one for one in spawner.helpers() if one.earlier]
    assert [(one.kind, one.pid, one.version) for one in earlier] == [("pty", left.helper, "0.9")]
    assert left.helper in spawner.helper_pids()
    assert {one.version for one in spawner.helpers() if not one.earlier} == {__version__}
    assert spawner.settled
    # whoever is next is told of it too
    handed = {one.pid: one for one in spawner.left()}
    assert handed.keys() == {one.pid for one in spawner.helpers()}
    assert handed[left.helper] == left.takeover.helpers[0]
    left.end()
    assert await here.end_of(left.process) == 3 << 8
    await here.record.until(lambda: not any(one.earlier for one in spawner.helpers()))
    assert not psutil.pid_exists(left.helper)
    assert not spawner.persons


async def test_a_guest_is_not_ended_as_an_orphan(zygotes: Scene) -> None:
    left = Left()
    zygotes.spawner.watch(left.process, "ses_x")
    zygotes.spawner.guest(left.helper)
    pid = await zygotes.running("wait")
    os.kill(pid, signal.SIGKILL)
    await zygotes.end_of(pid)
    assert not gone(left.helper)
    zygotes.spawner.guest_ended(left.helper)
    left.end()
    await zygotes.end_of(left.process)
    left.reap(left.helper)


async def test_helpers_that_cannot_run_are_told_of_as_a_crash_loop(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp / "h"))
    paths = find_paths()
    paths.make()
    runtime.become_subreaper()
    log = structlog.get_logger()
    spawner = make_spawner(paths, log, portable=False, command=lambda *_: ["/bin/false"])
    told: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
    spawner.on_loop = lambda kind, loops: told.put_nowait((kind, loops))
    spawner.begin(Record())
    async with asyncio.timeout(TIMEOUT_S):
        assert {await told.get(), await told.get()} == {("worker", True), ("pty", True)}
    assert told.empty()
    spawner.release()
    spawner.close()
