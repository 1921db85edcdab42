"""Keeping what is in this process' memory, the login's token, from core files and from other processes."""

import ctypes
import os
import resource
import sys
from contextlib import suppress
from typing import Final

#: the environment variable that lets our processes be debugged and leave core files; tools never see or set it
SWITCH: Final = "LEMBASD_DUMPABLE"
#: <linux/prctl.h>
_PR_SET_DUMPABLE: Final = 4
#: loaded here, once: each load anew would cost every worker 0.2 MB
_libc: Final = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> bool:
    """Tell the kernel something of this process; whether it took it. False where there is no such call."""
    if sys.platform != "linux":
        return False
    return int(_libc.prctl(option, value, 0, 0, 0)) == 0


def allowed() -> bool:
    """Whether somebody wants to debug our processes."""
    return bool(os.environ.get(SWITCH))


def forbid() -> None:
    """No core file, and no reading of this process' memory by others of the same user (Linux), unless `allowed`."""
    forbid_cores()
    if not allowed():
        prctl(_PR_SET_DUMPABLE, 0)


def forbid_cores() -> None:
    """No core file, unless `allowed`. For commands: others may still see by its environment whose a process is."""
    if allowed():
        return
    with suppress(ValueError, OSError):
        # the soft limit alone: a person's shells and programs inherit it, and may raise it again
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
