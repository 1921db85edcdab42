"""What a tool gives back, and how a file is looked at before it is opened."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.store.records import Seen

NOT_THERE: Final = "No such file or directory"


class Outcome(Struct, frozen=True):
    """A tool's result: what the model sees, whether it is an error, the diff a person sees beside it.

    `seen`: the lines of a file that it shows. `note`: what the harness says of the call, behind its output.
    """

    output: str
    is_error: bool = False
    diff: str | None = None
    seen: Seen | None = None
    note: str = ""


class Unusable(Exception):
    """A path cannot be used; the text is one sentence for the model."""


def shown(path: Path, root: Path) -> str:
    """A path as the model knows it: relative to the project where it is inside."""
    return str(path.relative_to(root)) if path == root or root in path.parents else str(path)


def read_bytes(path: Path, name: str, limit: int) -> tuple[bytes, os.stat_result]:
    """A regular file's content, at most `limit` bytes. Raises Unusable."""
    try:
        # nonblocking: opening a FIFO must not wait for a writer
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise Unusable(why(error, name)) from error
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise Unusable(f"{name} is {_kind(about.st_mode)}, not a file")
    with os.fdopen(handle, "rb") as file:
        if about.st_size > limit:
            raise Unusable(f"{name} is too large ({about.st_size:,} bytes, at most {limit:,})")
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise Unusable(why(error, name)) from error
    if len(content) > limit:
        raise Unusable(f"{name} is too large (over {limit:,} bytes)")
    return content, about


def why(error: OSError, name: str) -> str:
    """An operating system's error as one sentence."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"{NOT_THERE}: {name}"
        case errno.EACCES | errno.EPERM:
            return f"{name} may not be opened by this user"
        case errno.EISDIR:
            return f"{name} is a directory, not a file"
        case errno.ELOOP:
            return f"{name} changed into a link while it was opened; try again"
        case errno.ENOSPC | errno.EDQUOT:
            return f"{name} was not written: the disk is full"
        case errno.ENAMETOOLONG:
            return f"{name[:80]}… is too long a name"
        case errno.ENXIO:
            return f"{name} is a pipe or socket, not a file"
        case _:
            return f"{name}: {error.strerror or error}"


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
