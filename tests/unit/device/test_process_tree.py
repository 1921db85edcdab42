"""Ending trees of real processes, on both ways of looking at them."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import psutil
import pytest

from lembasd.device import process_tree
from lembasd.device.process_tree import EndReport, Marked

#: a child that sleeps, below a shell that waits
_FAMILY: Final = "sleep 60 & sleep 60 & echo ready; wait"
#: leaves a daemon: its own session, parent gone, environment cleared
_DAEMON: Final = "setsid env -i sh -c 'sleep 60 & echo ready; exec >&- 2>&-' & wait"


@pytest.fixture(params=["proc", "psutil"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    way: str = request.param
    monkeypatch.setenv("LEMBASD_PORTABLE", "1" if way == "psutil" else "")
    return way


@pytest.fixture
def subreaper() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    yield
    libc.prctl(36, 0, 0, 0, 0)


def start(script: str, **environment: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def finish(child: subprocess.Popen[bytes]) -> int:
    assert child.stdout is not None
    child.stdout.close()
    return child.wait(5)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_descendants_come_parents_first(look: str) -> None:
    child = start(f"sh -c '{_FAMILY}' & wait")
    below = process_tree.descendants(child.pid)
    shell = psutil.Process(child.pid).children()[0]
    assert below[0] == shell.pid
    assert sorted(below[1:]) == sorted(one.pid for one in shell.children())
    process_tree.end_tree_blocking([child.pid], watched={child.pid})
    finish(child)


async def test_a_tree_ends_whole_and_a_watched_root_keeps_its_status(look: str) -> None:
    child = start(_FAMILY)
    below = process_tree.descendants(child.pid)
    report = await process_tree.end_tree([child.pid], watched={child.pid})
    assert report == EndReport(ended=sorted([child.pid, *below]), left=[])
    assert all(gone(pid) for pid in below)
    assert finish(child) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
def test_a_subreaper_ends_a_daemon_that_cleared_its_environment(look: str, subreaper: None) -> None:
    before = set(process_tree.children(os.getpid()))
    child = start(_DAEMON)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert len(process_tree.strangers({*before, child.pid})) == 1
    report = process_tree.end_tree_blocking([], watched={child.pid}, known={*before, child.pid})
    assert len(report.ended) == 1
    assert report.left == []
    assert finish(child) == 0
    assert process_tree.strangers(before) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
def test_no_zombie_is_left_of_grandchildren(look: str, subreaper: None) -> None:
    before = set(process_tree.children(os.getpid()))
    child = start(_FAMILY)
    process_tree.end_tree_blocking([child.pid], watched={child.pid})
    finish(child)
    assert process_tree.strangers(before) == []


def test_the_marker_finds_what_kept_its_environment(look: str) -> None:
    # its own for each run: others may run beside it
    session = f"ses_of_{os.getpid()}_{look}"
    child = start(_FAMILY, LEMBASD_SESSION=f"{session}:3")
    below = process_tree.descendants(child.pid)
    expected = sorted(Marked(pid, session, 3) for pid in [child.pid, *below])
    found = process_tree.by_marker(session)
    assert sorted(found) == expected
    assert sorted(process_tree.by_marker(session, 3)) == expected
    assert process_tree.by_marker(session, 4) == []
    assert set(expected) <= set(process_tree.by_marker())
    process_tree.end_tree_blocking([one.pid for one in found], watched={child.pid})
    finish(child)


#: begins one program after another, as many as $1 says, and each has the environment that it began with
_EXECS: Final = 'echo ready; [ "$1" -gt 0 ] && exec sh -c "$0" "$0" "$(($1 - 1))"; cat'


@pytest.mark.skipif(sys.platform != "linux", reason="an exec is told apart on Linux alone")
def test_the_marker_is_found_in_the_middle_of_an_exec(look: str) -> None:
    session = f"ses_of_{os.getpid()}_exec"
    child = subprocess.Popen(
        ["/bin/sh", "-c", _EXECS, _EXECS, "500"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "LEMBASD_SESSION": f"{session}:3"},
    )
    found = [process_tree.marked_session(child.pid) for _ in range(20_000)]
    status = child.poll()
    child.kill()
    child.communicate(timeout=5)
    assert (set(found), status) == ({session}, None)


def test_a_process_without_an_environment_carries_no_marker(look: str) -> None:
    child = start("exec env -i sh -c 'echo ready; read line'")
    assert process_tree.marked_session(child.pid) == ""
    process_tree.end_tree_blocking([child.pid], watched={child.pid})
    finish(child)


def test_a_process_that_forks_all_the_time_ends(look: str) -> None:
    # not for ever: what a failure leaves on a machine is bounded
    child = start("echo ready; for i in $(seq 200); do sleep 30 & done; wait")
    report = process_tree.end_tree_blocking([child.pid], watched={child.pid})
    assert report.left == []
    finish(child)


def test_what_is_gone_already_is_no_error(look: str) -> None:
    child = start("echo ready")
    finish(child)
    assert process_tree.end_tree_blocking([child.pid]) == EndReport(ended=[], left=[])


def test_neither_this_process_nor_its_parents_are_ever_ended(look: str) -> None:
    report = process_tree.end_tree_blocking([os.getpid(), os.getppid(), 1, 0])
    assert report == EndReport(ended=[], left=[])


async def test_ending_many_does_not_hold_the_loop(look: str) -> None:
    child = start("for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo ready; wait")
    ended, ticks = asyncio.create_task(process_tree.end_tree([child.pid], watched={child.pid})), 0
    while not ended.done():
        await asyncio.sleep(0)
        ticks += 1
    assert len(ended.result().ended) == 10
    assert ticks > 1
    finish(child)


def test_a_process_is_as_old_as_it_is_and_what_has_ended_has_no_age(look: str) -> None:
    before = time.monotonic()
    child = start("echo ready; exec sleep 60")
    age_s = process_tree.age_s(child.pid)
    # by the portable way the boot is known to a second; the kernel counts in hundredths
    slack_s = 1.1 if look == "psutil" else 0.05
    assert age_s is not None
    assert -slack_s <= age_s <= time.monotonic() - before + slack_s
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_tree.age_s(child.pid) is None
    finish(child)
    assert process_tree.age_s(child.pid) is None
