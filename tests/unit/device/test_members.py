"""Who holds the install's locks, as it can be seen from outside."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lembasd.device.lock import HubLock, held_by, holders, hub_pid, member_pids
from lembasd.device.paths import Paths

_MEMBER = """
import sys
from pathlib import Path
from lembasd.device.lock import Membership
from lembasd.device.paths import Paths
base = Path(sys.argv[1])
share = Membership.join(Paths(config=base / "c", state=base / "s", run=base / "r"))
print("joined", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    made = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    made.make()
    return made


def test_the_processes_that_are_left_are_named_by_pid(paths: Paths) -> None:
    assert member_pids(paths) == []
    command = [sys.executable, "-c", _MEMBER, str(paths.run.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == b"joined\n"
        assert member_pids(paths) == [member.pid]
        member.communicate()
    assert member_pids(paths) == []


def test_a_look_at_the_hub_lock_does_not_keep_a_hub_from_starting(paths: Paths) -> None:
    looking = os.open(paths.hub_lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(looking, fcntl.LOCK_SH)
    release = threading.Timer(0.015, os.close, [looking])
    release.start()
    lock = HubLock.acquire(paths)
    release.join()
    assert hub_pid(paths) == os.getpid()
    lock.release()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs the kernel's list of locks")
def test_who_waits_for_a_lock_does_not_hold_it(short_tmp: Path) -> None:
    path = short_tmp / "lock"
    take = "import fcntl,sys; f=open(sys.argv[1],'w'); print(1,flush=True); fcntl.flock(f,fcntl.LOCK_EX); print(2,flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", take, str(path)]
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            while f"-> FLOCK  ADVISORY  WRITE {other.pid} " not in Path("/proc/locks").read_text():
                os.sched_yield()
            inode = path.stat().st_ino
            assert (holders(path), held_by([os.getpid(), other.pid])) == (
                {os.getpid()},
                {os.getpid(): {inode}},
            )
            fcntl.flock(file, fcntl.LOCK_UN)
            other.stdout.readline()
            assert (holders(path), held_by([other.pid])) == ({other.pid}, {other.pid: {inode}})
            other.communicate()
