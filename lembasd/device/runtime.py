"""How every process of ours runs: its loop, and what the kernel is told about it."""

import asyncio
import os
import resource
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import uvloop

from lembasd.device import dumps

T = TypeVar("T")

#: <linux/prctl.h>
_PR_SET_CHILD_SUBREAPER: Final = 36
#: more than any hub can use, and the most that macOS takes
MAX_DESCRIPTORS: Final = 10_240 if sys.platform == "darwin" else 1 << 20
#: tells what we start how many it may have open
_DESCRIPTORS: Final = "LEMBASD_NOFILE"
#: the label of our launchd agent
LAUNCHD_LABEL: Final = "org.lembas.lembasd"


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on a new uvloop and give its result."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def become_subreaper() -> bool:
    """Have orphaned descendants become this process' children. A fork does not inherit it. False where there is none."""
    return dumps.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def raise_descriptors() -> None:
    """Let this process have as many descriptors open as it may; what it starts calls `restore_descriptors`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # a hub that took this one's place by exec must not take our bound for the person's
    os.environ.setdefault(_DESCRIPTORS, str(soft))
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def restore_descriptors() -> None:
    """Have the bound that the person gave us, for what runs in shells and tools: some programs go through all numbers."""
    before = os.environ.get(_DESCRIPTORS, "")
    if before.isdigit():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(before), hard))


def under_service_manager() -> bool:
    """Whether a service manager runs this process, so that SIGTERM means leave, not stop (decisions.md, wire 13)."""
    environment = os.environ
    return (
        environment.get("SYSTEMD_EXEC_PID") == str(os.getpid())
        or bool(environment.get("NOTIFY_SOCKET"))
        or environment.get("XPC_SERVICE_NAME") == LAUNCHD_LABEL
    )


def stderr_is_journal() -> bool:
    """Whether standard error goes to systemd's journal, which bounds what it keeps (systemd.exec, JOURNAL_STREAM)."""
    told = os.environ.get("JOURNAL_STREAM")
    if told is None:
        return False
    try:
        about = os.fstat(2)
    except OSError:
        return False
    return told == f"{about.st_dev}:{about.st_ino}"
