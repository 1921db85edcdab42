"""A control group that is marked as systemd marks one that it delegates; where the machine lets us make one."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lembasd.device.cgroups import own_group


@contextmanager
def delegated(name: str) -> Iterator[Path]:
    """Below the group of this process; all that is in it is killed at the end. Skips the test where there is none."""
    above = own_group()
    if sys.platform != "linux" or above is None:
        pytest.skip("needs a group of cgroup v2 that may be divided")
    group = above / f"lembasd-test-{os.getpid()}-{name}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs a group of cgroup v2 that may be divided")
    try:
        os.setxattr(group, "user.delegate", b"1")
        yield group
    finally:
        _end(group)


def _end(group: Path) -> None:
    for one in sorted(group.glob("**/"), reverse=True):
        for _ in range(1000):
            with suppress(OSError):
                for pid in (one / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            with suppress(OSError):
                one.rmdir()
            if not one.exists():
                break


def joining(group: Path) -> str:
    """A line of Python that has its process join the group."""
    return f"open({str(group / 'cgroup.procs')!r}, 'w').write('0'); "
