"""Orphans of a subreaper, and who waits for them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lembasd.device import process_tree, runtime
from lembasd.device.reaper import Reaper
from tests.support.subreaper import no_subreaper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    runtime.become_subreaper()
    yield
    no_subreaper()


def orphan() -> int:
    """A child that came to this process when its parent had ended."""
    return int(subprocess.check_output(["sh", "-c", "sleep 300 > /dev/null & echo $!"]))


async def children_are(expected: list[int]) -> None:
    async with asyncio.timeout(10):
        while process_tree.children(os.getpid()) != expected:
            await asyncio.to_thread(os.sched_yield)


async def test_an_orphan_that_ended_is_reaped_while_commands_run() -> None:
    before = process_tree.children(os.getpid())
    reaper = Reaper(look_s=0.01, rest_s=1000)
    with reaper.watching():
        pid = orphan()
        assert process_tree.children(os.getpid()) == [*before, pid]
        os.kill(pid, signal.SIGKILL)
        await children_are(before)
    reaper.close()


async def test_an_orphan_that_outlives_the_command_is_reaped_when_it_ends() -> None:
    before = process_tree.children(os.getpid())
    reaper = Reaper(look_s=0.01, rest_s=0.01)
    with reaper.watching():
        pid = orphan()
    os.kill(pid, signal.SIGKILL)
    await children_are(before)
    reaper.close()


async def test_a_child_of_the_loop_is_left_to_the_loop() -> None:
    reaper = Reaper(look_s=0.0, rest_s=0.0)
    with reaper.watching():
        for number in range(50):
            child = await asyncio.create_subprocess_exec("sh", "-c", f"exit {number}")
            assert await asyncio.wait_for(child.wait(), 10) == number
    reaper.close()


async def test_nothing_is_looked_at_without_children() -> None:
    if process_tree.children(os.getpid()):
        pytest.skip("this process has children of its own")
    reaper = Reaper(look_s=1000, rest_s=1000)
    tasks = asyncio.all_tasks()
    with reaper.watching():
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks() - tasks) == 1
    over = asyncio.all_tasks() - tasks
    await asyncio.wait_for(asyncio.gather(*over, return_exceptions=True), 10)
