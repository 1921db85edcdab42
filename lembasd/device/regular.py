"""Opening our own files, and nothing that only has their name: a FIFO in a file's place would wait for ever."""

import errno
import os
import stat
from pathlib import Path


def open_regular(path: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file, closed by exec. Raises OSError, also for anything else of that name."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file; move it away", str(path))
    return handle


def read_regular(path: Path) -> bytes:
    """All of a regular file. Raises OSError."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()
