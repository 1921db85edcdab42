"""Who holds the install's locks, as it can be seen from outside."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lembasd.device.lock import HubLock, hub_pid, member_pids
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
