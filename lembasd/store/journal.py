"""A session's journal: opened under its lock, appended to record by record, read whole.

The lock file's text is the pid of its holder. Both files are opened by the process that uses them (never before a
fork) and closed by exec, so that no tool keeps the lock.
"""

import base64
import fcntl
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lembasd.device.damaged import clear_the_way
from lembasd.device.lock import write_pid
from lembasd.device.paths import Paths
from lembasd.device.regular import open_regular, read_regular
from lembasd.protocol.errors import LembasError
from lembasd.store import lines
from lembasd.store.apart import run_apart
from lembasd.store.lines import Damaged, Loaded
from lembasd.store.records import (
    JOURNAL_FORMAT,
    AnyRecord,
    Created,
    Opened,
    ToolResult,
)

JOURNAL: Final = "journal.jsonl"
LOCK: Final = "lock"
DAMAGED: Final = "journal.damaged"
#: how the line begins that a worker writes when it takes a session up
_OPENED: Final = b'{"type":"opened"'


class NoSession(LembasError):
    """There is no journal of this session."""


class JournalDamaged(LembasError):
    """The journal does not say of which session it is."""


class JournalNewer(LembasError):
    """A newer version has worked on the session, in a form that this one does not know."""


class SessionLocked(LembasError):
    """Another process has the session. `pid`: which, 0 when it has not written it yet."""

    def __init__(self, session_id: str, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{session_id} is in use by {who}; end that, or wait for it")
        self.pid = pid


class _Quarantined(Struct):
    """One line of `journal.damaged`; `line` is base64."""

    offset: int
    problem: str
    line: str


class Journal:
    """The one writer of a session's journal. Made by `create` or `open`; both block."""

    def __init__(
        self,
        directory: Path,
        lock: int,
        handle: int,
        loaded: Loaded,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._handle = handle
        self._clock = clock
        self._whole_bytes = loaded.whole_bytes
        #: lines that there was no room for: ends of turns that were accepted before, and no more
        self._owed: list[bytes] = []
        #: a failed write left half a line that could not be cut off
        self._torn = False
        self._records: list[AnyRecord] = loaded.records
        #: lines that could not be read; they are kept, and copied to `journal.damaged`
        self.damaged = len(loaded.damaged)

    @classmethod
    def create(cls, paths: Paths, session_id: str) -> Self:
        """Make the store of a new session. Raises OSError (FileExistsError when there is one)."""
        directory = paths.session(session_id)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _take_lock(directory, session_id)
        try:
            handle = open_regular(
                directory / JOURNAL, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
            )
        except OSError:
            os.close(lock)
            raise
        journal = cls(directory, lock, handle, Loaded())
        try:
            sync_directory(directory)
            sync_directory(directory.parent)
        except OSError:
            journal.close()
            raise
        return journal

    @classmethod
    def open(cls, paths: Paths, session_id: str) -> Self:
        """Take the session up: lock, read, cut a torn last line off, copy damaged ones.

        Raises NoSession, SessionLocked, JournalNewer, OSError.
        """
        directory = paths.session(session_id)
        lock = hold(directory, session_id)
        try:
            handle = open_regular(directory / JOURNAL, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:  # deleted while its lock was waited for
            os.close(lock)
            raise NoSession(f"unknown session {session_id}") from None
        except OSError:
            os.close(lock)
            raise
        try:
            with open(handle, "rb", closefd=False) as file:
                loaded = lines.read(file)
            _check_format(session_id, loaded.records)
            if loaded.whole_bytes:  # else it is no journal, and may be all that is left of one
                os.ftruncate(handle, loaded.whole_bytes)
            _quarantine(directory, loaded.damaged)
        except (OSError, JournalNewer):
            os.close(handle)
            os.close(lock)
            raise
        return cls(directory, lock, handle, loaded)

    @property
    def records(self) -> list[AnyRecord]:
        """What the journal held when it was opened."""
        return self._records

    def release_records(self) -> list[AnyRecord]:
        """The same, and the journal keeps them no longer."""
        records, self._records = self._records, []
        return records

    @property
    def whole_bytes(self) -> int:
        """Its length up to the end of the last whole line."""
        return self._whole_bytes

    @property
    def directory(self) -> Path:
        return self._directory

    def append(self, record: AnyRecord) -> None:
        """Write one record, with the time. Done when this returns.

        Raises OSError (a full disk): the journal then ends where it did before.
        """
        self._append([*self._owed, self._line(record)])

    def owe(self, record: AnyRecord) -> None:
        """Write one record now, or, on a full disk, before the next that there is room for, at the latest at the close."""
        self._owed.append(self._line(record))
        self.pay()

    def pay(self) -> bool:
        """Write what is owed, if there is room; whether nothing is owed any more."""
        if self._owed:
            with suppress(OSError):
                self._append(self._owed)
        return not self._owed

    def _line(self, record: AnyRecord) -> bytes:
        return lines.encode(replace(record, t=self._clock()))

    def _append(self, new: list[bytes]) -> None:
        text = b"".join(new)
        # a half line becomes a damaged one of its own
        written = b"\n" + text if self._torn else text
        try:
            self._write(written)
        except OSError:
            self._cut_back()
            raise
        self._torn = False
        self._owed = []
        self._whole_bytes += len(written)

    def _write(self, line: bytes) -> None:
        written = os.write(self._handle, line)
        while written < len(line):  # a nearly full disk takes a part, and says why at the next try
            written += os.write(self._handle, line[written:])

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._handle, self._whole_bytes)
        except OSError:
            self._torn = True

    async def sync(self) -> None:
        """Have everything written so far on the disk. Raises OSError."""
        await run_apart(self._sync)

    def _sync(self) -> None:
        if sys.platform == "darwin":
            fcntl.fcntl(self._handle, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._handle)

    def discard(self) -> None:
        """Let go of a session that could not be made, and leave no journal of it."""
        (self._directory / JOURNAL).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the session."""
        if self._handle >= 0:
            self.pay()
            os.close(self._handle)
            os.close(self._lock)
            self._handle = self._lock = -1


def read(paths: Paths, session_id: str) -> Loaded:
    """A journal's records without its lock, for who only looks. Blocks. Raises NoSession, OSError."""
    try:
        with open(_journal(paths, session_id), "rb") as file:
            return lines.read(file)
    except FileNotFoundError:
        raise NoSession(f"unknown session {session_id}") from None


def read_on(paths: Paths, session_id: str, offset: int) -> Loaded:
    """The records from the byte `offset` on, where a line begins. Blocks. Raises NoSession, OSError."""
    try:
        with open(_journal(paths, session_id), "rb") as file:
            file.seek(offset)
            return lines.read(file)
    except FileNotFoundError:
        raise NoSession(f"unknown session {session_id}") from None


def first(paths: Paths, session_id: str) -> Created:
    """The record that made the session, for who only looks. Blocks. Raises NoSession (also for a damaged one), OSError."""
    try:
        with open(_journal(paths, session_id), "rb") as file:
            record = lines.decode(file.readline(lines.MAX_LINE_BYTES))
    except (FileNotFoundError, ValueError):
        record = None
    if not isinstance(record, Created):
        raise NoSession(f"unknown session {session_id}")
    return record


def find_result(paths: Paths, session_id: str, result_id: str) -> ToolResult | None:
    """The result of this id, None when there is none. Reads the journal through: blocks. Raises NoSession, OSError."""
    wanted = msgspec.json.encode(result_id)
    try:
        with open(_journal(paths, session_id), "rb") as file:
            for line in file:
                # most lines are not even decoded
                if b'"result"' not in line or wanted not in line:
                    continue
                try:
                    record = lines.decode(line)
                except ValueError:
                    continue
                if isinstance(record, ToolResult) and record.result_id == result_id:
                    return record
    except FileNotFoundError:
        raise NoSession(f"unknown session {session_id}") from None
    return None


def last_epoch(paths: Paths, session_id: str) -> int | None:
    """The epoch of the life that began last, for who only looks; None when it cannot be told. Blocks, never raises."""
    found = None
    try:
        with open(_journal(paths, session_id), "rb") as file:
            for line in file:
                # the others are not even decoded
                if line.startswith(_OPENED) and isinstance(record := _decoded(line), Opened):
                    found = record.epoch
    except OSError:
        return None
    return found


def _decoded(line: bytes) -> AnyRecord | None:
    try:
        return lines.decode(line)
    except ValueError:
        return None


def _journal(paths: Paths, session_id: str) -> int:
    return open_regular(paths.session(session_id) / JOURNAL, os.O_RDONLY)


def hold(directory: Path, session_id: str) -> int:
    """Take the lock of a session that is there: a descriptor to be closed. Raises NoSession, SessionLocked, OSError."""
    try:
        if (directory / JOURNAL).exists():
            return _take_lock(directory, session_id)
    except FileNotFoundError:  # deleted in between
        pass
    raise NoSession(f"unknown session {session_id}")


def _check_format(session_id: str, records: list[AnyRecord]) -> None:
    """Raises JournalNewer, before anything is cut off or set aside: what looks damaged may be what is new."""
    lives = [one for one in records if isinstance(one, Created | Opened)]
    newest = max(lives, key=lambda one: one.format, default=None)
    if newest is not None and newest.format > JOURNAL_FORMAT:
        who = f" ({newest.build})" if isinstance(newest, Opened) else ""
        raise JournalNewer(
            f"a newer version of lembasd{who} has worked on {session_id}; install that or a later one to open it"
        )


def _take_lock(directory: Path, session_id: str) -> int:
    clear_the_way(directory / LOCK)
    lock = open_regular(directory / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_pid(lock)
    except BlockingIOError:
        text = os.pread(lock, 32, 0).strip()
        os.close(lock)
        raise SessionLocked(session_id, int(text) if text.isdigit() else 0) from None
    except OSError:
        os.close(lock)
        raise
    return lock


def sync_directory(directory: Path) -> None:
    """Have the names in a directory on the disk. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _quarantine(directory: Path, damaged: list[Damaged]) -> None:
    """Copy damaged lines aside, each once however often the journal is opened. They stay in the journal too."""
    if not damaged:
        return
    path = directory / DAMAGED
    clear_the_way(path)
    known = _known_offsets(path)
    try:
        handle = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:
        return  # the journal has them
    try:
        for one in damaged:
            if one.offset not in known:
                text = base64.b64encode(one.line).decode()
                kept = _Quarantined(one.offset, one.problem, text)
                os.write(handle, msgspec.json.encode(kept) + b"\n")
    except OSError:
        pass  # the journal still has them
    finally:
        os.close(handle)


def _known_offsets(path: Path) -> set[int]:
    offsets = set()
    try:
        for line in read_regular(path).splitlines():
            offsets.add(msgspec.json.decode(line, type=_Quarantined).offset)
    except (OSError, msgspec.MsgspecError, RecursionError):
        pass  # at worst a line is copied twice
    return offsets
