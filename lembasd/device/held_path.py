"""Opening what a path said when it was judged: no link in it is followed, whatever was swapped in meanwhile.

The paths are absolute and have no links in them. Linux' openat2 does it in one call; elsewhere, and where it is
forbidden, the path is walked name by name. What is opened below a directory is opened through its descriptor.
"""

import ctypes
import errno
import os
import platform
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: <linux/openat2.h>; the number is the same for every architecture but one
_OPENAT2: Final = 437
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
#: what the kernel, or what guards it (seccomp), says where there is no such call
_NO_CALL: Final = frozenset({errno.ENOSYS, errno.EPERM})
_MAYBE_THERE: Final = frozenset({errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS})
#: a directory that may be passed through but not read is opened all the same, where the system has a way to
_DIRECTORY: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_libc: Final = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_directory(path: Path) -> int:
    """A descriptor of the directory, to open what is in it (not to read it). Raises OSError: ELOOP for a link in its path."""
    parts = path.parts[1:]
    if _has_openat2():
        try:
            return _openat2("/".join(parts) or ".")
        except OSError as error:
            if error.errno not in _NO_CALL:
                raise
    handle = os.open("/", _DIRECTORY)
    for part in parts:
        handle = _next(handle, part)
    return handle


def make_directory(path: Path) -> tuple[int, list[Path]]:
    """The same for a directory that may not be there yet; also what was made for it, outermost first."""
    try:
        return open_directory(path), []
    except FileNotFoundError:
        pass
    made: list[Path] = []
    handle = os.open("/", _DIRECTORY)
    at = Path("/")
    try:
        for part in path.parts[1:]:
            at /= part
            try:
                os.mkdir(part, dir_fd=handle)
                made.append(at)
            except OSError as error:
                # there already, or not ours to make: the opening says which
                if error.errno not in _MAYBE_THERE:
                    os.close(handle)
                    raise
            handle = _next(handle, part)
    except OSError:
        for one in reversed(made):
            with suppress(OSError):
                one.rmdir()
        raise
    return handle, made


@contextmanager
def held(path: Path) -> Iterator[int]:
    """`open_directory`, closed in the end."""
    handle = open_directory(path)
    try:
        yield handle
    finally:
        os.close(handle)


def identities(directory: int) -> Iterator[tuple[int, int]]:
    """Device and inode of the directory and of each above it: a directory has one, however its name is spelled."""
    handle = os.dup(directory)
    try:
        while True:
            about = os.fstat(handle)
            yield about.st_dev, about.st_ino
            above = os.open("..", _DIRECTORY, dir_fd=handle)
            handle, below = above, handle
            os.close(below)
            beyond = os.fstat(handle)
            if (beyond.st_dev, beyond.st_ino) == (about.st_dev, about.st_ino):
                return
    finally:
        os.close(handle)


def _has_openat2() -> bool:
    # LEMBASD_PORTABLE: as on a system without it
    return (
        sys.platform == "linux"
        and platform.machine() != "alpha"
        and not os.environ.get("LEMBASD_PORTABLE")
    )


def _openat2(path: str) -> int:
    """Open a directory below the root."""
    root = os.open("/", _DIRECTORY)
    try:
        how = _How(_DIRECTORY, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
        name = ctypes.c_char_p(os.fsencode(path))
        handle = int(_libc.syscall(_OPENAT2, root, name, ctypes.byref(how), ctypes.sizeof(how)))
        if handle < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), f"/{path}")
        return handle
    finally:
        os.close(root)


def _next(handle: int, name: str) -> int:
    """The directory of this name; `handle` is closed."""
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise
    finally:
        os.close(handle)
