"""Records of ours that cannot be used are put aside: they stop nothing, and are still there for whoever wants to know."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import structlog

from lembasd.device.aside import is_regular, put_aside
from lembasd.device.logging import logger
from lembasd.device.regular import open_regular
from lembasd.protocol.errors import says
from lembasd.protocol.limits import MIB

T = TypeVar("T")

#: no record that is read whole is nearly as large
MAX_RECORD_BYTES: Final = 64 * MIB
#: what a machine is short of for a while, and a disk that does not answer as it should: no fault of a file's
PASSING: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR, errno.ESTALE}
)


def set_aside(path: Path, problem: str) -> bool:
    """Put a record aside and say so in the log; whether it is out of the way. Blocks, never raises."""
    aside = put_aside(path)
    say_damaged(path, problem, aside)
    return aside is not None


def say_damaged(path: Path, problem: str, aside: Path | None) -> None:
    """Say in the log that a record could not be used, and where it is now."""
    if structlog.is_configured():  # a command that has no log says what matters to it itself
        kept = str(aside) if aside is not None else None
        logger().warning("record_damaged", path=str(path), error=problem, kept=kept)


def clear_the_way(path: Path) -> bool:
    """Put aside what is at `path` and is no file; whether there is nothing or a file now. Blocks, never raises."""
    try:
        if is_regular(path):
            return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return set_aside(path, "it is no regular file")


def read_record(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """What `decode` makes of a record; None when it is not there or cannot be used: then it is put aside.

    `decode` raises ValueError for what it cannot read (msgspec's errors are). Blocks, never raises.
    """
    try:
        return decode(_content(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in PASSING:
            return None
        problem = says(error)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = f"it cannot be read: {error}"
    set_aside(path, problem)
    return None


def _content(path: Path) -> bytes:
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        content = file.read(MAX_RECORD_BYTES + 1)
    if len(content) > MAX_RECORD_BYTES:
        raise ValueError(f"it is over {MAX_RECORD_BYTES // MIB} MiB")
    return content
