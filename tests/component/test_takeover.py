"""A process that goes on as another program: what stays open, what is closed, and what comes back when it cannot."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.device.lock import HubLock, Membership, hub_pid
from lembasd.device.paths import Paths
from lembasd.hub import takeover
from lembasd.protocol.errors import LembasError
from lembasd.protocol.takeover import Helper, Takeover

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from lembasd.device.lock import HubLock, Membership
from lembasd.device.paths import Paths
from lembasd.hub import takeover
from lembasd.ipc.listen import bind
from lembasd.protocol.takeover import Helper, Takeover
base = Path(sys.argv[2])
paths = Paths(config=base / "c", state=base / "s", run=base / "r")
paths.make()
before = takeover.taken(os.environ)
if before is None:
    lock, member, listener = HubLock.acquire(paths), Membership.join(paths), bind(paths.socket)
    closed = os.open("/dev/null", os.O_RDONLY)
    os.kill(os.getpid(), 0)
    what = Takeover(version="1", listener=listener.fileno(), lock=lock.handle, members=member.handle,
        helpers=[Helper(5, "pty", "0.9")], processes={6: "ses_x"}, activated=True, persons=True)
    takeover.hand_over(what, paths.run, takeover.command())
again = takeover.taken(os.environ)
blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
takeover.hear()
print(json.dumps({"pid": os.getpid(), "open": sorted(int(one) for one in os.listdir("/dev/fd")),
    "blocked": blocked, "after": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "again": again is None, "told": takeover.VARIABLE in os.environ,
    "helpers": [one.pid for one in before.helpers], "processes": list(before.processes.items()),
    "rest": [before.version, before.reloads, before.activated, before.persons],
    "handles": [before.listener, before.lock, before.members]}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    return Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")


def test_the_socket_and_the_locks_stay_open_and_nothing_else(paths: Paths, short_tmp: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ROOT), str(short_tmp)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    said: dict[str, Any] = json.loads(child.stdout.readline())
    handles = said.pop("handles")
    # one more is that of the look itself
    assert len(set(said.pop("open")) - {0, 1, 2, *handles}) == 1
    assert said == {
        "pid": child.pid,
        "blocked": [signal.SIGINT, signal.SIGTERM],
        "after": [],
        "again": True,
        "told": False,
        "helpers": [5],
        "processes": [[6, "ses_x"]],
        "rest": ["1", 1, True, True],
    }
    assert hub_pid(paths) == child.pid
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.connect(str(paths.socket))
    child.stdin.close()
    assert child.wait(20) == 0
    child.stdout.close()
    assert hub_pid(paths) is None


def test_a_program_that_is_gone_leaves_everything_as_it_was(paths: Paths) -> None:
    paths.make()
    lock, member = HubLock.acquire(paths), Membership.join(paths)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    kept = (listener.fileno(), lock.handle, member.handle)
    what = Takeover("1", *kept, helpers=[Helper(5, "pty")])
    with pytest.raises(FileNotFoundError):
        takeover.hand_over(what, paths.run, ["/nowhere/python", "run"])
    assert [os.get_inheritable(one) for one in kept] == [False, False, False]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert list(paths.run.glob("tmp*")) == []
    lock.release()
    member.leave()
    listener.close()


def told(base: Path, text: bytes) -> dict[str, str]:
    """An environment as the version before would leave it."""
    path = base / "left"
    path.write_bytes(text)
    return {takeover.VARIABLE: f"{os.getpid()}:{os.open(path, os.O_RDONLY)}"}


def test_what_was_left_is_taken_once_and_by_its_own_process_alone(short_tmp: Path) -> None:
    what = Takeover("1", 3, 4, 5, processes={7: "term_x"})
    environment = told(short_tmp, msgspec.json.encode(what))
    assert (takeover.taken(environment), environment) == (what, {})
    assert takeover.taken({}) is None
    assert takeover.taken({takeover.VARIABLE: "1:9"}) is None
    # of a later version, which has more to say
    later = told(short_tmp, msgspec.json.encode(what)[:-1] + b',"more":{"x":1}}')
    assert takeover.taken(later) == what


def test_what_cannot_be_read_is_said(short_tmp: Path) -> None:
    with pytest.raises(LembasError, match="start lembasd again"):
        takeover.taken(told(short_tmp, b"{"))
