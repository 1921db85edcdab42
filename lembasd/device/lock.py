"""The hub's lock, and the lock that every process of ours shares while it lives.

Both are flocks on files in the run directory, opened after a fork and closed by exec, so that no tool keeps one.
"""

import fcntl
import os
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil

from lembasd.device.paths import Paths
from lembasd.protocol.errors import UsageError

#: how long a lock that somebody has is tried for, since `hub_pid` shares it for the instant of its look
_TRIES: Final = 5
_BETWEEN_TRIES_S: Final = 0.01


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _check_file(handle: int, path: Path) -> None:
    """Raises OSError where the descriptor is not of this file."""
    if not os.path.samestat(os.fstat(handle), path.stat()):
        raise OSError(f"the descriptor that was left is not of {path}")


def _take(handle: int) -> None:
    """Lock alone. Raises BlockingIOError when somebody keeps it: one who only looks has it for an instant."""
    for _ in range(_TRIES):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_BETWEEN_TRIES_S)
    return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_pid(handle: int) -> None:
    """Have this process' pid be the whole text of a lock file. Never raises: a full disk leaves it without a text.

    What is there is written over first, for that needs no room.
    """
    text = f"{os.getpid()}\n".encode()
    try:
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, 0)  # an earlier holder's would be taken for ours


class HubLock:
    """Held by the one hub of this install; the file's text is its pid."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def acquire(cls, paths: Paths) -> Self:
        """Take the lock. Raises UsageError when another hub has it."""
        handle = _open(paths.hub_lock)
        try:
            _take(handle)
        except BlockingIOError:
            pid = _pid_in(handle)
            os.close(handle)
            who = f" (pid {pid})" if pid else ""
            raise UsageError(
                f"a hub runs already{who}; use it, or end it with `lembasd stop`"
            ) from None
        write_pid(handle)
        return cls(handle)

    @classmethod
    def take_over(cls, paths: Paths, handle: int) -> Self:
        """The lock that an earlier version of this process has left open. Raises OSError when it is not this install's."""
        os.set_inheritable(handle, False)
        _check_file(handle, paths.hub_lock)
        _take(handle)
        return cls(handle)

    @property
    def handle(self) -> int:
        """The descriptor, for another version of this process."""
        return self._handle

    def release(self) -> None:
        """Let another hub take it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def hub_pid(paths: Paths) -> int | None:
    """The pid of the hub that holds the lock; None when none does (0 when it has not written its pid yet)."""
    try:
        handle = os.open(paths.hub_lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid_in(handle) or 0
    finally:
        os.close(handle)
    return None


def may_be_dialled(paths: Paths) -> bool:
    """Whether a hub may listen on the socket: false where one ran and none does.

    A service manager that listens in its place would start the hub for whoever connects, and one that was stopped is to
    stay so.
    """
    return not paths.hub_lock.exists() or hub_pid(paths) is not None


def _pid_in(handle: int) -> int | None:
    try:
        return int(os.pread(handle, 32, 0))
    except ValueError:
        return None


class Membership:
    """One process' share of the members lock."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def join(cls, paths: Paths) -> Self:
        """Share the lock; waits the instant that somebody else takes to look. Raises OSError."""
        handle = _open(paths.members_lock)
        fcntl.flock(handle, fcntl.LOCK_SH)
        return cls(handle)

    @classmethod
    def take_over(cls, paths: Paths, handle: int) -> Self:
        """The share that an earlier version of this process has left open. Raises OSError when it is not this install's."""
        os.set_inheritable(handle, False)
        _check_file(handle, paths.members_lock)
        fcntl.flock(handle, fcntl.LOCK_SH)
        return cls(handle)

    @property
    def handle(self) -> int:
        """The descriptor, for a child that must not keep its parent's share, or for another version of this process."""
        return self._handle

    def leave(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def all_gone(paths: Paths) -> bool:
    """Whether no process of this install is left: the members lock can be had alone."""
    try:
        handle = os.open(paths.members_lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def member_pids(paths: Paths) -> list[int]:
    """The processes that share the members lock, as far as they can be seen; for a person, and never fast."""
    if sys.platform == "linux":
        # our processes are not dumpable, so that their descriptors are hidden; the kernel's list of locks is not
        with suppress(OSError):
            return sorted(holders(paths.members_lock) - {os.getpid()})
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if any(file.path == str(paths.members_lock) for file in process.open_files()):
                found.append(process.pid)
    return sorted(found)


def holders(path: Path) -> set[int]:
    """Who holds a flock on the file, by the kernel's own list. Raises OSError where there is none, or no such file."""
    inode = path.stat().st_ino
    return _flock_holders(Path("/proc/locks").read_text(encoding="ascii"), inode)


def flocks() -> dict[int, int] | None:
    """Who holds a flock on each inode, by the kernel's own list (one of several); None where it has none."""
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return None
    lines = (line.split() for line in locks.splitlines())
    return {int(line[-3].rpartition(":")[2]): int(line[-4]) for line in lines if _is_flock(line)}


def held_by(pids: Collection[int]) -> dict[int, set[int]] | None:
    """The inodes on which each of these processes holds a flock, by the kernel's own list; None where it has none."""
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return None
    return {pid: held for pid in pids if (held := set(_held_in(locks, pid)))}


def _held_in(locks: str, pid: int) -> Iterator[int]:
    """The inodes in the lines of this pid: `1: FLOCK ADVISORY READ 123 fe:00:4567 0 EOF`. A busy machine has thousands."""
    word, at = f" {pid} ", 0
    while (at := locks.find(word, at)) >= 0:
        line = locks[locks.rfind("\n", 0, at) + 1 : locks.find("\n", at)].split()
        at += len(word) - 1
        if _is_flock(line) and line[-4] == str(pid):
            yield int(line[-3].rpartition(":")[2])


def _flock_holders(locks: str, inode: int) -> set[int]:
    """Pids in the text of /proc/locks: `1: FLOCK ADVISORY READ 123 fe:00:4567 0 EOF`."""
    found = set()
    for line in locks.splitlines():
        fields = line.split()
        if _is_flock(fields) and fields[-3].endswith(f":{inode}"):
            found.add(int(fields[-4]))
    return found


def _is_flock(fields: list[str]) -> bool:
    """Whether a line tells of a flock that is held: after `->` stands one who waits for it."""
    return len(fields) >= 8 and "FLOCK" in fields and "->" not in fields
