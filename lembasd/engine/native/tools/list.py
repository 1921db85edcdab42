"""`list`: a directory as a tree, without what git ignores."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lembasd.device.held_path import held
from lembasd.engine.native.core.text_code import spelled
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome, Unusable, kind_of, why
from lembasd.engine.native.tools.walk import Entry, Sight, look, sight_of

DEPTH: Final = 3
#: entries shown, fewer than a result has lines; the rest is counted
MAX_ENTRIES: Final = 390
#: of a folder below the one that is listed
MAX_OF_ONE: Final = 100
#: shown as a name, never gone into
_CLOSED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__", ".hg", ".svn"})


class _Folder:
    """A folder of the tree. `more`: entries of it that are not shown."""

    def __init__(self, path: Path, depth: int) -> None:
        self.path = path
        self.depth = depth
        self.entries: list[Entry] = []
        self.inner: dict[str, _Folder] = {}
        self.is_repository = False
        self.unreadable = False
        self.more = 0


def list_directory(use: Use, _args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable. A protected directory is a name in the tree, never gone into."""
    target = use.target
    use.files.check(target)
    tree = _Tree(target.path, use.files.protected)
    try:
        tree.grow()
    except NotADirectoryError:
        mode = os.stat(target.path, follow_symlinks=False).st_mode  # noqa: PTH116
        what = kind_of(mode) if not os.path.isfile(target.path) else "a file"  # noqa: PTH113
        raise Unusable(f"{target.name} is {what}, not a directory; read it") from None
    except OSError as error:
        raise Unusable(why(error, target.name)) from error
    lines = list(tree.lines())
    notes = []
    if tree.more:
        notes.append(f"[{tree.more} more entries; list a folder of it]")
    if tree.ignored:
        notes.append(f"[{tree.ignored} entries that git ignores are left out]")
    return Outcome("\n".join([*lines, *notes]) if lines or notes else f"{target.name} is empty")


class _Tree:
    """The nearest entries first: a folder with thousands of files hides none of its neighbours."""

    def __init__(self, path: Path, shut: frozenset[str]) -> None:
        self._root = _Folder(path, 0)
        self._shut = shut
        self._room = MAX_ENTRIES
        self.ignored = 0
        self.more = 0

    def grow(self) -> None:
        """Raises OSError when the folder itself cannot be looked into."""
        waiting: list[tuple[_Folder, Sight]] = [(self._root, sight_of(self._root.path))]
        while waiting:
            folder, sight = waiting.pop(0)
            try:
                sight = self._look(folder, sight)
            except OSError:
                if folder is self._root:
                    raise
                folder.unreadable = True
                continue
            if folder.depth + 1 == DEPTH:
                continue
            for one in folder.entries:
                path = folder.path / one.name
                if one.is_dir and one.name not in _CLOSED and str(path) not in self._shut:
                    folder.inner[one.name] = _Folder(path, folder.depth + 1)
                    waiting.append((folder.inner[one.name], sight.below(one.name)))

    def _look(self, folder: _Folder, sight: Sight) -> Sight:
        most = self._room if folder is self._root else min(self._room, MAX_OF_ONE)
        with held(folder.path) as directory:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
            try:
                seen = look(handle, folder.path, sight, most)
            finally:
                os.close(handle)
        folder.entries = seen.entries
        folder.more = seen.more
        folder.is_repository = seen.is_repository
        self._room -= len(folder.entries)
        self.more += folder.more
        self.ignored += seen.ignored
        return seen.sight

    def lines(self) -> Iterator[str]:
        yield from self._lines(self._root)

    def _lines(self, folder: _Folder) -> Iterator[str]:
        space = "  " * folder.depth
        if folder.is_repository:
            yield f"{space}.git/"
        if folder.unreadable:
            yield f"{space}[may not be read]"
        for one in folder.entries:
            mark = "@" if one.is_link else "/" if one.is_dir else ""
            yield f"{space}{spelled(one.name)}{mark}"
            if inner := folder.inner.get(one.name):
                yield from self._lines(inner)
        if folder.more and folder is not self._root:
            yield f"{space}[{folder.more} more]"
