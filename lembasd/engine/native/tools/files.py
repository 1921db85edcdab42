"""The files of one session: what may be touched, what the model knows, what is kept before a change.

Everything here blocks, and runs in a thread.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device.held_path import held, identities
from lembasd.engine.native.core.known_files import KnownFiles
from lembasd.engine.native.tools.commit import Change, commit
from lembasd.engine.native.tools.outcome import Unusable, why
from lembasd.engine.native.tools.text_file import (
    MAX_TEXT_BYTES,
    Bytes,
    TextFile,
    TooLarge,
    decoded,
    digest_of,
    read_bytes,
)
from lembasd.store.pre_images import PreImage, PreImages, pre_image

#: a change waits so long for the one before it; that one then hangs on a disk that does not answer
LOCK_S: Final = 30.0


class Target(Struct, frozen=True):
    """A path as it was judged: absolute, without links. `name`: how the model knows it."""

    path: Path
    name: str


class Files:
    """`protected`: what no tool may touch, whatever its name is spelled like; but for what is in the `open_directory`."""

    def __init__(
        self,
        protected: Callable[[], Iterable[Path]],
        directory: Path,
        open_directory: Path | None = None,
    ) -> None:
        self._protected = protected
        self._open = open_directory
        self._known = KnownFiles()
        self._pre_images = PreImages(directory)
        self._changing = threading.Lock()

    def learn(self, path: Path, digest: str) -> None:
        """The model has seen a file with this content."""
        self._known.learn(str(path), digest)

    @property
    def protected(self) -> frozenset[str]:
        """The paths of what is shown as a name and never gone into."""
        return frozenset(map(str, self._protected()))

    def check(self, target: Target) -> None:
        """Raises Unusable for what is protected under another spelling, and where nothing can be opened."""
        ids = set()
        for path in self._protected():
            try:
                about = os.stat(path)  # noqa: PTH116 - one look at one of ours
                ids.add((about.st_dev, about.st_ino))
            except OSError:
                continue  # not there: nothing to protect
        if not ids:
            return
        path = target.path
        while True:
            try:
                with held(path) as directory:
                    found = self._is_below(identities(directory), ids)
                break
            except (FileNotFoundError, NotADirectoryError):
                if not found_file(path, ids):
                    path = path.parent
                    continue
                found = True
                break
            except OSError as error:
                raise Unusable(why(error, target.name)) from error
        if found:
            raise Unusable(f"{target.name} is protected: no tool may touch it in any mode")

    def _is_below(self, above: Iterable[tuple[int, int]], protected: set[tuple[int, int]]) -> bool:
        """Whether one of these directories, the nearest first, is protected, before one is open."""
        is_open = identity(self._open)
        for one in above:
            if one == is_open:
                return False
            if one in protected:
                return True
        return False

    def kept(self) -> list[PreImage]:
        """The changes that can be undone, in their order. Raises OSError."""
        return self._pre_images.kept()

    def kept_content(self, image: PreImage) -> bytes | None:
        """What a file was before a change; None where there was none. Raises OSError, ValueError."""
        return self._pre_images.content(image)

    def read(self, target: Target, limit: int = MAX_TEXT_BYTES) -> Bytes:
        """A file's content. Raises Unusable."""
        self.check(target)
        try:
            return read_bytes(target.path, target.name, limit)
        except TooLarge as large:
            raise Unusable(f"{large}; look into it with grep, or with a command") from None

    def saw(self, target: Target, raw: Bytes) -> None:
        """The model was shown of this content."""
        self._known.learn(str(target.path), raw.digest)

    def load(self, target: Target, *, whole: bool = False) -> TextFile:
        """A text file that is to be changed. `whole`: nothing of it will stay. Raises Unusable, also where it changed."""
        raw = self.read(target)
        objection = self._known.objection(str(target.path), raw.digest, target.name, whole=whole)
        if objection is not None:
            raise Unusable(objection)
        return decoded(raw, target.name)

    def is_there(self, target: Target) -> bool:
        """Whether something stands at the path. Raises Unusable."""
        self.check(target)
        try:
            with held(target.path.parent) as directory:
                os.stat(target.path.name or ".", dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise Unusable(why(error, target.name)) from error
        return True

    def change(self, call_id: str, changes: Sequence[Change]) -> None:
        """Keep what is there, then make the changes, all or none. Raises Unusable."""
        if not self._changing.acquire(timeout=LOCK_S):
            raise Unusable("an earlier change hangs on its disk; see to it, then try again")
        try:
            self._keep(call_id, changes)
            commit(changes)
            for one in changes:
                digest = None if one.content is None else digest_of(one.content)
                self._known.learn(str(one.path), digest)
        finally:
            self._changing.release()

    def _keep(self, call_id: str, changes: Sequence[Change]) -> None:
        images = []
        for one in changes:
            content = None if one.before is None else one.before.content
            mode = None if one.before is None else one.before.raw.about.st_mode & 0o7777
            images.append((pre_image(call_id, one.path, content, mode, one.content), content))
        try:
            self._pre_images.keep(images)
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unusable(
                f"nothing was changed: what is there now could not be kept for /undo ({reason})"
            ) from error


def identity(path: Path | None) -> tuple[int, int] | None:
    """Device and inode of what is there, no link followed."""
    try:
        about = os.stat(path, follow_symlinks=False) if path is not None else None  # noqa: PTH116
    except OSError:
        return None
    return None if about is None else (about.st_dev, about.st_ino)


def found_file(path: Path, ids: set[tuple[int, int]]) -> bool:
    """Whether the file itself is one of these."""
    try:
        about = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        return False
    return (about.st_dev, about.st_ino) in ids


class Use(Struct, frozen=True):
    """One call of a file tool: the session's files, and where the paths that it names lead."""

    files: Files
    call_id: str
    targets: Mapping[str, Target]

    @property
    def target(self) -> Target:
        """Of a tool that has one path."""
        return next(iter(self.targets.values()))
