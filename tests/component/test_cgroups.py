"""Control groups of workers: when there are any, and that everything in one ends at a stroke."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from lembasd.device import cgroups
from lembasd.device.cgroups import Group, Groups
from lembasd.device.paths import Paths
from tests.support.delegated import delegated

SESSION: Final = "ses_" + "a" * 26
#: leaves what nobody above it finds: its own session, its parent gone, its environment cleared, and forks on
DAEMON: Final = """
import os, sys
from lembasd.device.cgroups import Groups
from pathlib import Path
Groups(Path(sys.argv[1])).enter(sys.argv[2])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", os.environ["LEAVE"]], {})
    os._exit(0)
os.wait()
"""
LEAVE: Final = "sleep 600 > /dev/null & sleep 600 > /dev/null & echo ready; exec > /dev/null; wait"

linux = pytest.mark.skipif(sys.platform != "linux", reason="cgroups are Linux's")


@pytest.fixture(autouse=True)
def not_portable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")


@pytest.fixture
def group() -> Iterator[Path]:
    with delegated("groups") as one:
        yield one


def worker(base: Path) -> int:
    """The pid of one that entered its group, left a daemon there and ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(base), SESSION],
        stdout=subprocess.PIPE,
        env={**os.environ, "LEAVE": LEAVE},
    )
    assert child.communicate(timeout=20)[0] == b"ready\n"
    return child.pid


def test_there_are_none_where_no_group_is_delegated(paths: Paths, tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert cgroups.find(paths, own) is None
    own.mkdir()
    assert cgroups.find(paths, own) is None


@linux
def test_there_are_none_in_a_group_that_systemd_did_not_give_away(
    paths: Paths, tmp_path: Path
) -> None:
    with mark(tmp_path, b"0"):
        assert cgroups.find(paths, tmp_path) is None


@linux
def test_there_are_none_on_the_portable_way(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    with mark(tmp_path, b"1"):
        assert cgroups.find(paths, tmp_path) is None


def mark(directory: Path, value: bytes) -> "_Mark":
    return _Mark(directory, value)


class _Mark:
    def __init__(self, directory: Path, value: bytes) -> None:
        self._directory, self._value = directory, value

    def __enter__(self) -> None:
        try:
            os.setxattr(self._directory, "user.delegate", self._value)
        except OSError:
            pytest.skip("no extended attributes here")

    def __exit__(self, *_: object) -> None:
        os.removexattr(self._directory, "user.delegate")


@linux
def test_each_install_has_groups_of_its_own_in_one_service(paths: Paths, tmp_path: Path) -> None:
    other = Paths(config=paths.config, state=tmp_path / "other", run=paths.run)
    with mark(tmp_path, b"1"):
        mine, theirs = cgroups.find(paths, tmp_path), cgroups.find(other, tmp_path)
    assert mine is not None
    assert theirs is not None
    mine.enter(SESSION)
    assert (mine.found(), theirs.found()) == ([Group(SESSION, os.getpid())], [])


def test_only_what_is_named_as_a_workers_group_is_one(tmp_path: Path) -> None:
    for name in (f"{SESSION}.12", f"{SESSION}.x", f"{SESSION}", "init.scope", "ses_x.12"):
        (tmp_path / name).mkdir()
    assert Groups(tmp_path).found() == [Group(SESSION, 12)]
    assert Groups(tmp_path / "none").found() == []


def test_a_process_that_cannot_enter_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    groups = Groups(tmp_path / "file")
    groups.enter(SESSION)
    assert (groups.found(), groups.left(), groups.end_worker(1)) == ([], [], [])


def test_all_that_a_worker_left_ends_at_a_stroke_and_its_group_goes(group: Path) -> None:
    groups = Groups(group / "base")
    pid = worker(group / "base")
    (left,) = groups.left()
    assert left == Group(SESSION, pid)
    # one that the tool made in its own group
    (group / "base" / left.name / "theirs").mkdir()
    pids = groups.members(left)
    assert len(pids) == 3
    assert groups.end_worker(pid) == pids
    assert [one for one in pids if not is_zombie(one)] == []
    assert (groups.found(), [*(group / "base").glob("*/")]) == ([], [])
    assert groups.end(left) == []


def is_zombie(pid: int) -> bool:
    """Whether it has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_group_of_a_worker_that_lives_is_not_left(group: Path) -> None:
    base = group / "base"
    lives = subprocess.Popen(["sleep", "600"])
    (base / f"{SESSION}.{lives.pid}").mkdir(parents=True)
    assert Groups(base).left() == []
    lives.kill()
    lives.wait(5)
    assert Groups(base).left() == [Group(SESSION, lives.pid)]


def test_a_kernel_that_kills_no_group_has_its_members_ended_one_by_one(tmp_path: Path) -> None:
    """A directory stands for the group: it has a list of members, and no file that kills."""
    child = subprocess.Popen(["sleep", "600"])
    left = Group(SESSION, 4_000_000)
    (tmp_path / left.name).mkdir()
    (tmp_path / left.name / "cgroup.procs").write_text(f"{child.pid}\n")
    assert Groups(tmp_path, gone_s=0.0).end(left) == [child.pid]
    child.wait(5)
    assert is_zombie(child.pid)
