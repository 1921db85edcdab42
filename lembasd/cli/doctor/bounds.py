"""What the system gives out in numbers: descriptors, terminals, processes."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from lembasd.cli.doctor.finding import Finding, fail, ok, warn

#: of a bound, from which on it is worth a warning
NEARLY: Final = 0.8
#: what a hub with a hundred sessions and their clients needs
FEW_DESCRIPTORS: Final = 1024
_PTY: Final = Path("/proc/sys/kernel/pty")


def look(hub: dict[str, Any] | None) -> Iterator[Finding]:
    """`hub`: what the running hub says of itself."""
    yield _descriptors(hub)
    yield from _terminals()
    yield from _processes()


def judge(name: str, used: int, most: int, what: str, remedy: str) -> Finding:
    """Whether `used` of `most` will do."""
    said = f"{used} of {most} {what}"
    if used >= most:
        return fail(name, f"{said}: none is left; {remedy}")
    if used >= NEARLY * most:
        return warn(name, f"{said}; {remedy}")
    return ok(name, said)


def _descriptors(hub: dict[str, Any] | None) -> Finding:
    name = "descriptors"
    most = int(hub["max_fds"]) if hub else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY or most < 0:
        return ok(name, "no bound")
    if most < FEW_DESCRIPTORS:
        return warn(
            name,
            f"a process may have {most} open, which is few; "
            f"set LimitNOFILE={FEW_DESCRIPTORS} or `ulimit -n {FEW_DESCRIPTORS}` before it starts",
        )
    if hub is None:
        return ok(name, f"a process may have {most} open")
    return judge(name, int(hub["fds"]), most, "open in the hub", "set a higher LimitNOFILE=")


def _terminals() -> Iterator[Finding]:
    remedy = "close some terminals"
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        if sys.platform == "linux":
            used, most = (int((_PTY / one).read_text()) for one in ("nr", "max"))
        else:
            asked = ["/usr/sbin/sysctl", "-n", "kern.tty.ptmx_max"]
            most = int(subprocess.run(asked, capture_output=True, timeout=5, check=True).stdout)
            used = sum(1 for _ in Path("/dev").glob("ttys[0-9]*"))
        yield judge("terminals", used, most, "of the machine's pseudo-terminals in use", remedy)


def _processes() -> Iterator[Finding]:
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most == resource.RLIM_INFINITY or most < 0:
        yield ok("processes", "no bound")
        return
    used = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == os.getuid():
                # Linux counts threads
                used += process.num_threads() if sys.platform == "linux" else 1
    yield judge("processes", used, most, "processes and threads are yours", "end some of them")
