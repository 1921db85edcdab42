"""The sweep ends what workers that are gone left behind, and nothing else."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import structlog

from lembasd.device.paths import Paths
from lembasd.hub.sweep import Sweeper, Swept, sweep
from lembasd.protocol import ids
from lembasd.store.journal import Journal
from lembasd.store.records import Created, Opened
from tests.support.milestones import Milestones

SOON_S: Final = 10.0


class Scene:
    """An install whose sessions are stored by this process, with processes that carry their markers."""

    def __init__(self, paths: Paths, stack: ExitStack) -> None:
        self.paths = paths
        self._stack = stack

    def session(self, *, held: bool, epoch: int = 1, stored: bool = True) -> str:
        session = ids.session_id(os.urandom(ids.SESSION_RANDOM_BYTES))
        if stored:
            journal = Journal.create(self.paths, session)
            journal.append(Created(session_id=session, root="/", mode="auto", model="m"))
            for number in range(epoch):
                journal.append(Opened(epoch=number + 1, build=""))
            if held:
                self._stack.callback(journal.close)
            else:
                journal.close()
        return session

    def tool(self, session: str, epoch: int = 1) -> "subprocess.Popen[bytes]":
        """One that carries the marker for sure: it runs its program already."""
        tool = subprocess.Popen(
            ["sh", "-c", "echo ready; exec sleep 600 > /dev/null"],
            env={**os.environ, "LEMBASD_SESSION": f"{session}:{epoch}"},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._stack.callback(_end, tool)
        assert tool.stdout is not None
        assert tool.stdout.readline() == b"ready\n"
        tool.stdout.close()
        return tool


def _end(tool: "subprocess.Popen[bytes]") -> None:
    tool.kill()
    tool.wait(SOON_S)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    paths = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    paths.make()
    with ExitStack() as stack:
        yield Scene(paths, stack)


async def test_what_a_dead_worker_left_is_ended_and_nothing_else(scene: Scene) -> None:
    gone, works = scene.session(held=False), scene.session(held=True, epoch=2)
    other_installs = scene.session(held=False, stored=False)
    left, earlier = scene.tool(gone), scene.tool(works, epoch=1)
    kept = [scene.tool(works, epoch=2), scene.tool(works, epoch=3), scene.tool(other_installs)]
    swept = await sweep(scene.paths, None)
    assert swept == Swept(
        carriers=4,
        ended=sorted([left.pid, earlier.pid]),
        left=[],
        sessions=sorted([gone, works]),
        programs=["sleep"],
    )
    assert [one.poll() for one in kept] == [None, None, None]


async def test_nothing_of_a_session_that_is_held_ends_while_its_journal_cannot_be_read(
    scene: Scene,
) -> None:
    session = scene.session(held=True)
    (scene.paths.session(session) / "journal.jsonl").unlink()
    (scene.paths.session(session) / "journal.jsonl").mkdir()
    tool = scene.tool(session)
    assert await sweep(scene.paths, None) == Swept(carriers=1)
    assert tool.poll() is None


async def test_it_sweeps_at_the_start_and_again_and_says_what_it_found(
    scene: Scene, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = scene.session(held=False)
    tools = [scene.tool(gone)]
    strangers: list[int] = []
    async with Milestones(short_tmp / "m") as milestones:
        for name, value in milestones.environment.items():
            monkeypatch.setenv(name, value)
        with structlog.testing.capture_logs() as logged:
            sweeper = Sweeper(scene.paths, None, structlog.get_logger(), every_s=0.1)
            sweeper.on_sweep = lambda: strangers.append(1)
            running = asyncio.create_task(sweeper.run())
            await milestones.wait("hub.swept")
            tools.append(scene.tool(gone, epoch=7))
            while sum(one["event"] == "orphans_ended" for one in logged) < 2:
                await milestones.wait("hub.swept")
            await milestones.wait("hub.swept")
            running.cancel()
            await asyncio.wait([running])
    found = [one for one in logged if one["event"] == "orphans_ended"]
    assert found == [
        {
            "event": "orphans_ended",
            "log_level": "warning",
            "ended": [tool.pid],
            "left": [],
            "sessions": [gone],
            "programs": ["sleep"],
        }
        for tool in tools
    ]
    assert {"event": "orphans_none", "log_level": "info", "carriers": 0} in logged
    assert len(strangers) >= 3
