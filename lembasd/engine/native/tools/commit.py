"""Changes to files, made all together or not at all.

Everything is made ready first: each new content is a synced file beside the one it will replace. Then each is put in
its place by a rename, after a second name was given to what stands there; if one fails, what was replaced is put back
under its own. Nothing here asks whether a change may be made.
"""

import errno
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device.held_path import held, make_directory
from lembasd.engine.native.tools.outcome import Unusable, kind_of, why
from lembasd.engine.native.tools.text_file import TextFile

_PREFIX: Final = ".lembas-"
#: refusals of a directory, or of a file system, to do what a file itself may allow
_NOT_HERE: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


#: read once, while there is one thread: it can be read only by setting it
_UMASK: Final = _umask()


class Change(Struct, frozen=True):
    """What shall become of one path (absolute, without links). `name`: how the model knows it.

    `before`: the file as it was read; None: there must be none. `content`: None takes the file away. `mode`: of a new file.
    """

    path: Path
    name: str
    before: TextFile | None
    content: bytes | None
    mode: int | None = None


def commit(changes: Sequence[Change]) -> None:
    """Make them all. Raises Unusable, and then every file is as it was."""
    steps: list[Step] = []
    try:
        for change in changes:
            steps.append(Step(change))
            steps[-1].prepare()
        for step in steps:
            step.make()
    except BaseException:
        lost = [one.change.name for one in reversed(steps) if not one.undo()]
        if lost:
            raise Unusable(
                f"{' and '.join(lost)} could not be put back after another change failed; "
                "the content from before is kept for /undo"
            ) from None
        raise
    finally:
        for step in steps:
            step.close()


class _Changed(Exception):
    """The file is not the one that was read."""


class Step:
    """One change on its way."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self._leaf = change.path.name
        self._directory = -1
        self._made: list[Path] = []
        #: names in the directory that are ours: the new content, and what stood there
        self._new: str | None = None
        self._old: str | None = None
        self._in_place = False
        self._done = False

    def prepare(self) -> None:
        """Have the new content on the disk. Raises Unusable."""
        change = self.change
        try:
            self._directory, self._made = make_directory(change.path.parent)
            self._look()
            if change.content is None:
                return
            if change.before is not None and change.before.raw.about.st_nlink > 1:
                self._in_place = True  # its other names shall mean the same file still
                return
            try:
                self._stage(change.content)
            except OSError as error:
                # its directory takes no new file, or its owner cannot be kept: the file itself may be written to
                if change.before is None or error.errno not in _NOT_HERE:
                    raise
                self._drop(self._new)
                self._new, self._in_place = None, True
        except OSError as error:
            raise Unusable(why(error, change.name)) from error

    def make(self) -> None:
        """Put it in its place. Raises Unusable."""
        change = self.change
        try:
            if self._in_place:
                self._overwrite(change.content or b"")
            elif change.before is None:
                self._link_new()
            elif change.content is None:
                self._take_away()
            else:
                self._replace()
        except _Changed:
            raise Unusable(
                f"{change.name} changed while it was being changed; read it again"
            ) from None
        except OSError as error:
            raise Unusable(why(error, change.name)) from error

    def undo(self) -> bool:
        """As it was; False when that cannot be."""
        try:
            if self._done:
                self._put_back()
            self._drop(self._new)
            self._new = None
            for path in reversed(self._made):
                # somebody may have put something in it by now
                with suppress(OSError), held(path.parent) as above:
                    os.rmdir(path.name, dir_fd=above)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Nothing of ours stays."""
        if self._directory < 0:
            return
        self._drop(self._new)
        self._drop(self._old)
        if self._done:
            with suppress(OSError):  # a file system that syncs no directories
                handle = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        os.close(self._directory)
        self._directory = -1

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._directory, follow_symlinks=False)

    def _look(self) -> None:
        change = self.change
        try:
            about = self._stat(self._leaf)
        except FileNotFoundError:
            if change.before is not None:
                raise
            return
        if not stat.S_ISREG(about.st_mode):
            raise Unusable(f"{change.name} is {kind_of(about.st_mode)}, not a file")
        if change.before is None:
            raise Unusable(f"{change.name} is there already; read it again")
        if not self._is_same(about):
            raise Unusable(f"{change.name} changed while it was being changed; read it again")
        if not os.access(self._leaf, os.W_OK, dir_fd=self._directory):
            raise Unusable(
                f"{change.name} may not be written by this user; ask the person to change its rights"
            )

    def _is_same(self, about: os.stat_result) -> bool:
        before = self.change.before
        return before is not None and _version(about) == _version(before.raw.about)

    # ── the new content beside the old ──────────────────────────────────────────────────────────

    def _stage(self, content: bytes) -> None:
        self._new = _PREFIX + secrets.token_hex(8)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._new, flags, 0o600, dir_fd=self._directory)
        try:
            _write(handle, content, 0)
            before = self.change.before
            if before is None:
                mode = self.change.mode
                os.fchmod(handle, 0o666 & ~_UMASK if mode is None else mode)
            else:
                self._become_like(handle, before.raw.about)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _become_like(self, handle: int, before: os.stat_result) -> None:
        """Owner, extended attributes (which lists of rights are) and mode."""
        about = os.fstat(handle)
        if (about.st_uid, about.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(handle, before.st_uid, before.st_gid)
        if hasattr(os, "listxattr"):
            source = os.open(
                self._leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory
            )
            try:
                _copy_attributes(source, handle)
            finally:
                os.close(source)
        os.fchmod(handle, stat.S_IMODE(before.st_mode))

    # ── putting it in its place, and back ───────────────────────────────────────────────────────

    def _replace(self) -> None:
        self._keep_old()
        os.rename(
            self._new or "", self._leaf, src_dir_fd=self._directory, dst_dir_fd=self._directory
        )
        self._new, self._done = None, True
        # who had the old file open may have written to it up to now
        if self._old is not None and not self._is_same(self._stat(self._old)):
            raise _Changed

    def _keep_old(self) -> None:
        name = _PREFIX + secrets.token_hex(8)
        try:
            os.link(
                self._leaf,
                name,
                src_dir_fd=self._directory,
                dst_dir_fd=self._directory,
                follow_symlinks=False,
            )
            self._old = name
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise  # gone, or no room for a name
        if not self._is_same(self._stat(self._old or self._leaf)):
            raise _Changed

    def _link_new(self) -> None:
        """A new file takes nobody's place."""
        new = self._new or ""
        try:
            os.link(new, self._leaf, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except FileExistsError:
            raise _Changed from None
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            if self._is_there():
                raise _Changed from None
            os.rename(new, self._leaf, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            self._new = None
        self._done = True

    def _is_there(self) -> bool:
        try:
            self._stat(self._leaf)
        except FileNotFoundError:
            return False
        return True

    def _take_away(self) -> None:
        name = _PREFIX + secrets.token_hex(8)
        os.rename(self._leaf, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._old, self._done = name, True
        if not self._is_same(self._stat(name)):
            raise _Changed

    def _overwrite(self, content: bytes) -> None:
        """Write into the file itself: what it grows by comes first, so that a full disk is met before anything is lost."""
        before = self.change.before
        old = b"" if before is None else before.content
        handle = os.open(
            self._leaf, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory
        )
        try:
            if not self._is_same(os.fstat(handle)):
                raise _Changed
            try:
                _write(handle, content[len(old) :], len(old))
                _write(handle, content[: len(old)], 0)
                os.ftruncate(handle, len(content))
                os.fsync(handle)
                self._done = True
            except OSError:
                _write(handle, old, 0)
                os.ftruncate(handle, len(old))
                raise
        finally:
            os.close(handle)

    def _put_back(self) -> None:
        before = self.change.before
        if self._in_place and before is not None:
            handle = os.open(
                self._leaf, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory
            )
            try:
                _write(handle, before.content, 0)
                os.ftruncate(handle, before.raw.size)
                os.fsync(handle)
            finally:
                os.close(handle)
        elif before is None:
            os.unlink(self._leaf, dir_fd=self._directory)
        elif self._old is not None:
            os.rename(self._old, self._leaf, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            self._old = None
        else:  # a file system without second names
            self._stage(before.content)
            os.rename(
                self._new or "", self._leaf, src_dir_fd=self._directory, dst_dir_fd=self._directory
            )
            self._new = None
        self._done = False

    def _drop(self, name: str | None) -> None:
        if name is not None:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._directory)


def _version(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _write(handle: int, content: bytes, at: int) -> None:
    rest = memoryview(content)
    while rest:
        count = os.pwrite(handle, rest, at)
        rest, at = rest[count:], at + count


def _copy_attributes(source: int, target: int) -> None:
    try:
        names = os.listxattr(source)
    except OSError:
        return  # a file system without any
    for name in names:
        value = os.getxattr(source, name)
        try:
            os.setxattr(target, name, value)
        except OSError:
            # what the kernel sets itself (security labels) is on the new file as well; a list of rights must be copied
            if name.startswith("system.posix_acl"):
                raise
