"""Removing what is kept no longer. Everything here blocks; what a death cuts off is taken up by the next time.

A session's lock is held for the moment in which a part of it goes by its name; whoever opens the session then finds it
whole, without that part. What has lost its name is removed after that.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.device import private_file
from lembasd.device.log_file import FILE_NAME
from lembasd.device.paths import Paths
from lembasd.device.regular import read_regular
from lembasd.protocol.errors import LembasError
from lembasd.protocol.retention import DAY_S, Retention
from lembasd.store import attachments, deleting, footprint, images, pre_images, sessions
from lembasd.store.core import retention as policy
from lembasd.store.core.retention import Drop
from lembasd.store.journal import DAMAGED, NoSession, SessionLocked, hold

#: a directory of such a name has been let go of and is only not removed yet
_GONE: Final = ".gone-"
_STAMP: Final = "retention.json"
#: how a file is named while it is written (private_file, turns): left by a death, for nobody writes one for so long
_UNFINISHED: Final = re.compile(r"\..+-[a-z0-9_]{8}|\.ses_[0-9a-z]{26}\.json\.\d+")
UNFINISHED_S: Final = DAY_S
_CRASH_LOG: Final = "crash.log"


class _Stamp(Struct, frozen=True):
    at: float


class Report(Struct, frozen=True):
    """What was removed, or would be. Sizes in bytes; `left_bytes` is what is stored of sessions then."""

    drops: list[Drop] = []
    #: what was to go and stays: it was opened meanwhile, or its disk refuses
    kept: list[Drop] = []
    logs_bytes: int = 0
    left_bytes: int = 0
    over: bool = False

    @property
    def freed_bytes(self) -> int:
        return sum(drop.size for drop in self.drops) + self.logs_bytes

    def count(self, part: policy.Part) -> int:
        """Of how many sessions this part went."""
        return sum(drop.part == part for drop in self.drops)


def is_due(paths: Paths, every_s: float, now: float) -> bool:
    """Whether so much time has passed since `apply` removed something for good."""
    return policy.is_due(now, _last(paths), every_s)


def apply(paths: Paths, kept: Retention, *, now: float | None = None, dry: bool = False) -> Report:
    """Remove what is kept no longer; `dry`: only look. Never raises."""
    at = time.time() if now is None else now
    by_age = not policy.is_doubtful(at, _last(paths))
    if not dry:
        _sweep(paths, at)
    wanted = policy.plan(footprint.stored(paths), kept, at, by_age=by_age)
    done = [drop for drop in wanted.drops if dry or perform(paths, drop)]
    stay = [drop for drop in wanted.drops if drop not in done]
    logs = 0
    if by_age and kept.logs_s is not None:
        logs = _logs(paths, at - kept.logs_s, dry=dry)
    if not dry:
        with suppress(OSError):  # a full disk: it is done again, which costs a look
            private_file.write(paths.state / _STAMP, msgspec.json.encode(_Stamp(at)))
    return Report(
        drops=done,
        kept=stay,
        logs_bytes=logs,
        left_bytes=wanted.left_bytes + sum(drop.size for drop in stay),
        over=wanted.over,
    )


def _last(paths: Paths) -> float | None:
    try:
        return msgspec.json.decode(read_regular(paths.state / _STAMP), type=_Stamp).at
    except (OSError, msgspec.MsgspecError):
        return None


def perform(paths: Paths, drop: Drop) -> bool:
    """Remove it; whether it is gone: not when the session was opened meanwhile, or the disk refuses."""
    try:
        if drop.part == "session":
            deleting.delete(paths, drop.session_id, tell=True)
        else:
            _drop_part(paths, drop)
    except NoSession:
        return True
    except (SessionLocked, LembasError, OSError):
        return False
    return True


def _drop_part(paths: Paths, drop: Drop) -> None:
    """Raises NoSession, SessionLocked, OSError."""
    directory = paths.session(drop.session_id)
    lock = hold(directory, drop.session_id)
    try:
        match drop.part:
            case "undo":
                # the list first: without it nobody asks for the contents
                for name in pre_images.NAMES:
                    _let_go(directory / name)
            case "attachments":
                _let_go(attachments.directory(paths, drop.session_id))
                _let_go(directory / images.FOLDER)
            case _:
                (directory / DAMAGED).unlink(missing_ok=True)
    finally:
        os.close(lock)
    _remove_gone(directory)
    _remove_gone(paths.attachments)


def _let_go(path: Path) -> None:
    """Take its name from a file or directory, at one stroke. Raises OSError."""
    gone = path.with_name(f"{_GONE}{path.name}")
    _remove(gone)
    with suppress(FileNotFoundError):
        path.rename(gone)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _remove_gone(directory: Path) -> None:
    for one in _entries(directory):
        if one.name.startswith(_GONE):
            _remove(one)


def _sweep(paths: Paths, now: float) -> None:
    """Remove what a death cut off: here, in a deletion, and in the writing of a file."""
    deleting.sweep(paths)
    of_sessions = [
        base / session_id
        for base in (paths.sessions, paths.attachments)
        for session_id in sessions.listed(paths)
    ]
    for directory in [paths.turns, paths.attachments, *of_sessions]:
        for one in _entries(directory):
            unfinished = _UNFINISHED.fullmatch(one.name) and _is_old(one, now - UNFINISHED_S)
            if unfinished or one.name.startswith(_GONE):
                _remove(one)


def _logs(paths: Paths, oldest: float, *, dry: bool) -> int:
    """Remove the parts of the log that were turned over before `oldest`; their bytes. The files of now stay."""
    freed = 0
    for one in _entries(paths.log):
        name, _, number = one.name.rpartition(".")
        if number.isdigit() and name in (FILE_NAME, _CRASH_LOG) and _is_old(one, oldest):
            freed += footprint.size_of(one)
            if not dry:
                _remove(one)
    return freed


def _is_old(path: Path, oldest: float) -> bool:
    try:
        return path.lstat().st_mtime < oldest
    except OSError:
        return False


def _entries(directory: Path) -> Iterable[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
