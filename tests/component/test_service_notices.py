"""What a hub tells its service manager, and what it is handed."""

import os
import socket
import stat
import sys
import time
from pathlib import Path

import pytest

from lembasd.device.service_manager import Notifier, handed_over
from lembasd.ipc.listen import inherited, left_open


def told(listener: socket.socket) -> str:
    listener.settimeout(5)
    return listener.recv(4096).decode()


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(1)
    return listener


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_hears_what_happens(short_tmp: Path, *, abstract: bool) -> None:
    if abstract and sys.platform != "linux":
        pytest.skip("names that are in no directory are Linux'")
    address = f"@lembasd-test-{os.getpid()}" if abstract else str(short_tmp / "n")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(f"\0{address[1:]}" if abstract else address)
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready("serves")
    assert told(listener) == "READY=1\nSTATUS=serves"
    notifier.alive()
    assert told(listener) == "WATCHDOG=1"
    before = time.monotonic_ns() // 1000
    notifier.reloading()
    name, _, at_us = told(listener).partition("MONOTONIC_USEC=")
    assert (name, before <= int(at_us) <= time.monotonic_ns() // 1000) == ("RELOADING=1\n", True)
    notifier.stopping()
    assert told(listener) == "STOPPING=1"
    listener.close()
    notifier.stopping()
    notifier.close()
    notifier.alive()


def test_without_a_manager_nothing_is_told_and_nothing_handed_over() -> None:
    notifier = Notifier({})
    notifier.ready("serves")
    notifier.close()
    assert (notifier.alive_every_s, handed_over({})) == (None, [])


@pytest.mark.parametrize(
    ("environment", "every_s"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_a_watchdog_is_told_three_times_in_its_time(
    environment: dict[str, str], every_s: float | None
) -> None:
    assert Notifier(environment).alive_every_s == every_s


@pytest.mark.parametrize(
    "environment",
    [
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "x", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_descriptors_for_another_process_are_left_alone(environment: dict[str, str]) -> None:
    assert handed_over(environment) == []


def test_the_socket_that_is_ours_is_taken_and_others_are_closed(short_tmp: Path) -> None:
    ours, other = listening(short_tmp / "hub"), listening(short_tmp / "other")
    odd = os.open(os.devnull, os.O_RDONLY)
    handles = [other.detach(), ours.detach()]
    taken = inherited(handles, short_tmp / "hub")
    assert taken is not None
    assert (taken.getsockname(), taken.getblocking()) == (str(short_tmp / "hub"), False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])
    assert stat.S_ISCHR(os.fstat(odd).st_mode)
    os.close(odd)
    taken.close()


def test_a_socket_that_was_left_open_is_taken_over_and_closed_to_others(short_tmp: Path) -> None:
    ours, other = listening(short_tmp / "hub"), listening(short_tmp / "other")
    ours.set_inheritable(True)
    taken = left_open(ours.detach(), short_tmp / "hub")
    assert (taken.getsockname(), taken.getblocking(), taken.get_inheritable()) == (
        str(short_tmp / "hub"),
        False,
        False,
    )
    taken.close()
    with pytest.raises(OSError, match="start lembasd again"):
        left_open(other.detach(), short_tmp / "hub")


def test_a_manager_that_listens_elsewhere_is_a_fault_with_its_remedy(short_tmp: Path) -> None:
    other = listening(short_tmp / "other")
    with pytest.raises(OSError, match="run `lembasd install` again"):
        inherited([other.detach()], short_tmp / "hub")
    assert inherited([], short_tmp / "hub") is None
