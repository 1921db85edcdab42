"""Looking into folders as git would have them: what it ignores is left out. No link is followed."""

import os
import re
from collections.abc import Iterator
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.engine.native.core.ignore import Level, Rule, is_ignored, parse

#: a longer ignore file is none
_MAX_RULES_BYTES: Final = 1024 * 1024
#: as ripgrep reads it: git's own reader is a process for each look
_EXCLUDES_FILE: Final = re.compile(r'^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$', re.I | re.M)
_GIT: Final = ".git"


class Entry(Struct, frozen=True, gc=False):
    """A name in a folder."""

    name: str
    is_dir: bool
    is_link: bool
    is_file: bool


class Sight(Struct, frozen=True):
    """What holds in a folder: the rules of its repository, None outside of any, and its path in there."""

    levels: tuple[Level, ...] | None
    at: str = ""

    def below(self, name: str) -> "Sight":
        """What holds in a folder in it, before that was looked into."""
        return Sight(self.levels, f"{self.at}/{name}" if self.at else name)


class Look(Struct, frozen=True):
    """What is in a folder, by name, without what is ignored (how many that are) and without .git.

    `more`: how many were not wanted.
    """

    entries: list[Entry]
    more: int
    ignored: int
    sight: Sight
    is_repository: bool


def sight_of(folder: Path) -> Sight:
    """What the folders above say of one (absolute, without links)."""
    root = next((one for one in (folder, *folder.parents) if (one / _GIT).exists()), None)
    if root is None or root == folder:
        return Sight(None)  # its own rules are found by looking into it
    levels = _repository_levels(root)
    parts = folder.relative_to(root).parts
    for depth in range(len(parts)):
        base = "/".join(parts[:depth])
        levels += _level(base, _read(root / base / ".gitignore"))
    return Sight(levels, "/".join(parts))


def look(handle: int, path: Path, sight: Sight, most: int | None = None) -> Look:
    """Look into the folder that `handle` (open for reading) is, which lies at `path`; `most`: how many are wanted.

    Raises OSError.
    """
    with os.scandir(handle) as scan:
        entries = [*map(_entry, scan)]
    is_repository = any(one.name == _GIT for one in entries)
    if is_repository:
        # a repository in another is ruled by its own files alone
        sight = Sight(_repository_levels(path))
    if sight.levels is not None and any(one.name == ".gitignore" for one in entries):
        sight = Sight(sight.levels + _level(sight.at, _read_in(handle)), sight.at)
    shown = [one for one in entries if one.name != _GIT and not _is_ignored(one, sight)]
    ignored = len(entries) - len(shown) - is_repository
    # never a sort of all where few are wanted: that holds the loop for as long as it takes
    first = nsmallest(len(shown) if most is None else most, shown, key=attrgetter("name"))
    return Look(first, len(shown) - len(first), ignored, sight, is_repository)


class _Level(Struct):
    """A folder that is being walked. `prefix`: its path, to put before its names."""

    handle: int
    path: Path
    prefix: str
    sight: Sight
    entries: Iterator[Entry]


def walk(handle: int, path: Path, sight: Sight) -> Iterator[str]:
    """The files below a folder, by their paths from it. What cannot be read is left out."""
    levels = [_level_of(os.dup(handle), path, "", sight)]
    try:
        while levels:
            level = levels[-1]
            one = next(level.entries, None)
            if one is None:
                os.close(levels.pop().handle)
            elif one.is_file:
                yield level.prefix + one.name
            elif one.is_dir and (below := _opened(one.name, level.handle)) is not None:
                inner = level.sight.below(one.name)
                prefix = f"{level.prefix}{one.name}/"
                levels.append(_level_of(below, level.path / one.name, prefix, inner))
    finally:
        for level in levels:
            os.close(level.handle)


def _level_of(handle: int, path: Path, prefix: str, sight: Sight) -> _Level:
    try:
        seen = look(handle, path, sight)
    except OSError:
        return _Level(handle, path, prefix, sight, iter(()))
    return _Level(handle, path, prefix, seen.sight, iter(seen.entries))


def _opened(name: str, above: int) -> int | None:
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=above)
    except OSError:
        return None


def _entry(found: "os.DirEntry[str]") -> Entry:
    is_link = found.is_symlink()
    return Entry(
        found.name,
        found.is_dir(follow_symlinks=False),
        is_link,
        found.is_file(follow_symlinks=False),
    )


def _is_ignored(entry: Entry, sight: Sight) -> bool:
    if sight.levels is None:
        return False
    path = f"{sight.at}/{entry.name}" if sight.at else entry.name
    return is_ignored(sight.levels, path, is_dir=entry.is_dir)


# ── where git's rules lie ───────────────────────────────────────────────────────────────────────


def _repository_levels(root: Path) -> tuple[Level, ...]:
    return _level("", _read(_persons_file())) + _level("", _read(_exclude_file(root)))


def _level(base: str, text: str) -> tuple[Level, ...]:
    rules: tuple[Rule, ...] = parse(text) if text else ()
    return (Level(base, rules),) if rules else ()


def _persons_file() -> Path:
    """The ignore file of all the person's repositories."""
    home = Path(os.environ.get("HOME") or "/")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    for path in (home / ".gitconfig", config / "config"):
        if match := _EXCLUDES_FILE.search(_read(path)):
            return Path(match[1].replace("~", str(home), 1) if match[1][0] == "~" else match[1])
    return config / "ignore"


def _exclude_file(root: Path) -> Path:
    git = root / _GIT
    if not git.is_file():
        return git / "info" / "exclude"
    # a worktree: a file names the directory, and a file in that the one of the repository
    git = root / _read(git).removeprefix("gitdir:").strip()
    common = _read(git / "commondir").strip()
    return (git / common if common else git) / "info" / "exclude"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _text(file.read(_MAX_RULES_BYTES + 1))
    except OSError:
        return ""


def _read_in(handle: int) -> str:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(".gitignore", flags, dir_fd=handle), "rb") as file:
            return _text(file.read(_MAX_RULES_BYTES + 1))
    except OSError:
        return ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape") if len(data) <= _MAX_RULES_BYTES else ""
