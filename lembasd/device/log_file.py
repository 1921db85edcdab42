"""The log's file: many processes append to it, and whoever finds it too large turns it over.

A line is one write() to a file opened with O_APPEND, so lines never mix. The file of now is renamed to `.1`, `.1` to
`.2` and so on, under a lock; the others see that within LOOK_S, or LOOK_BYTES of their own lines, and go on in the new
one. So the log takes (KEPT + 1) * MAX_FILE_BYTES, and at most LOOK_BYTES for each process more.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from lembasd.device.aside import is_regular, put_aside
from lembasd.protocol.limits import KIB, MIB

FILE_NAME: Final = "lembasd.jsonl"
#: over it the file is turned over
MAX_FILE_BYTES: Final = 16 * MIB
#: files beside the one of now; the oldest is replaced
KEPT: Final = 4
#: a process that writes looks this often whether the file is still the one of now, and not too large
LOOK_S: Final = 1.0
LOOK_BYTES: Final = 64 * KIB
_LOCK_NAME: Final = "rotate.lock"


def older(path: Path, number: int) -> Path:
    """The file that was turned over `number` times."""
    return path.with_name(f"{path.name}.{number}")


def files(directory: Path) -> list[Path]:
    """The log's files that are there, the oldest first."""
    path = directory / FILE_NAME
    named = [older(path, number) for number in range(KEPT, 0, -1)]
    return [one for one in [*named, path] if one.exists()]


class LogFile:
    """This process' end of the shared file. One that cannot be opened is tried again as long as there are lines.

    `aside`: where what lay in its place is now, and is no file.
    """

    def __init__(
        self, directory: Path, *, largest: int = MAX_FILE_BYTES, look_s: float = LOOK_S
    ) -> None:
        self.path = directory / FILE_NAME
        self._largest = largest
        self._look_s = look_s
        self.aside = None if _is_ours(self.path) else put_aside(self.path)
        self._handle = self._open_first()
        self._torn = False
        self._look(time.monotonic())

    def write(self, line: bytes) -> None:
        """Append one line, its end included. What a full disk does not take is lost."""
        now = time.monotonic()
        self._unseen += len(line)
        if now >= self._look_at or self._unseen >= LOOK_BYTES:
            self._look(now)
        if self._torn:  # the disk took a part of the line before
            line = b"\n" + line
        try:
            self._torn = os.write(self._handle, line) != len(line)
        except OSError:
            pass  # a full disk must not end what the log is about

    def close(self) -> None:
        """Close the file; nothing is written any more."""
        os.close(self._handle)

    def _look(self, now: float) -> None:
        self._look_at, self._unseen = now + self._look_s, 0
        with suppress(OSError):
            if self._is_current():
                if os.fstat(self._handle).st_size < self._largest:
                    return
                self._turn_over()
            handle = _open(self.path)
            # the number stays: a thread that is about to write must find a log behind it
            os.dup2(handle, self._handle, inheritable=False)
            os.close(handle)

    def _open_first(self) -> int:
        try:
            return _open(self.path)
        except OSError:  # a full disk, say: the service runs without a log until there is room
            return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def _is_current(self) -> bool:
        """Whether the file we write is the one that has the name."""
        ours = os.fstat(self._handle)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def _turn_over(self) -> None:
        lock = os.open(
            self.path.with_name(_LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_current():
                return  # somebody was faster
            for number in range(KEPT, 1, -1):
                with suppress(FileNotFoundError):
                    older(self.path, number - 1).replace(older(self.path, number))
            self.path.replace(older(self.path, 1))
        except BlockingIOError:
            pass  # somebody does it now
        finally:
            os.close(lock)


def _is_ours(path: Path) -> bool:
    """Whether there is a file that can be written, or nothing."""
    try:
        return is_regular(path) and os.access(path, os.W_OK)
    except OSError:
        return True


def _open(path: Path) -> int:
    # not blocking: a pipe in its place would wait for a reader
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, 0o600)
