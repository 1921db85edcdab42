"""Where paths lie: in the project, in what is protected, in what nobody may lose. Symlinks come in followed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from lembasd.engine.native.core.paths import lexical, parts
from lembasd.harness.permissions import HARDLINE, Protected

#: grounds kept ready: one a session, and one more when a link changes
_GROUNDS: Final = 8
#: paths kept ready in small letters; of more the oldest are made again
_PATHS: Final = 1024
_GLOB: Final = re.compile(r"[*?\[]")
_EVERYTHING: Final = re.compile(r"[*?.]*[*?][*?.]*")

#: links made in one line that are followed one after the other; what leads further stays where it is
_MAX_MADE: Final = 8

_PROTECTED: Final = [one for one in HARDLINE.protected if one.scope in ("shared", "cli")]

Access = Literal["none", "read", "ask", "outside"]
_STRICTEST: Final[tuple[Access, ...]] = ("none", "read", "ask", "outside")


class Kept(Struct, frozen=True):
    """A protected path with its `{{…}}` filled in, as parts; `*` is any part. `anywhere`: it may lie below any directory."""

    parts: tuple[str, ...]
    access: Access
    why: str
    anywhere: bool = False


class Ground(Struct, frozen=True):
    """`links`: absolute path as it is named → where it leads; a path that is not in it leads where it says."""

    root: str
    home: str
    kept: tuple[Kept, ...]
    #: what is lost with what holds it: the home, and what no tool may touch
    lost: tuple[tuple[str, ...], ...]
    #: `kept` by its parts, and that which may lie anywhere
    fixed: Mapping[tuple[str, ...], Kept]
    #: directories by their parts → the strictest of what is protected below them
    above: Mapping[tuple[str, ...], Kept]
    loose: tuple[Kept, ...]
    #: a directory whose content is a session's own, though what is around it is protected
    spared: str = ""
    links: Mapping[str, str] = {}
    #: the links that the line itself makes
    made: Mapping[str, str] = {}
    #: the processes that the session runs in and below
    pids: frozenset[str] = frozenset()

    def lead(self, path: str) -> str:
        """Where an absolute path leads."""
        above, _, last = path.rpartition("/")
        if path in self.links:
            path = self.links[path]
        elif above in self.links and last not in ("", ".", ".."):
            path = f"{self.links[above]}/{last}"
        path = lexical(path)
        if not self.made:
            return path
        for _ in range(_MAX_MADE):
            link = next((one for one in self.made if _is_below(path, one)), None)
            if link is None:
                break
            path = lexical(self.made[link] + path[len(link) :])
        return path

    def is_inside(self, path: str) -> bool:
        """Whether an absolute path, links followed, is the project or below it."""
        return _is_below(path, self.root)

    def access(self, path: str) -> Kept | None:
        """The strictest protection of a path, which may be a pattern; None: it has none."""
        if self.spared and path.startswith(f"{self.spared}/"):
            return None
        named = _folded(path)
        if _GLOB.search(path) is not None:
            found = [one for one in self.kept if _may_cover(one, named)]
        else:
            starts = (named[:size] for size in range(1, len(named) + 1))
            found = [self.fixed[one] for one in starts if one in self.fixed]
            found += [one for one in self.loose if _covers(one, named)]
        return min(found, key=lambda one: _STRICTEST.index(one.access), default=None)

    def holds(self, path: str, *, written: bool) -> Kept | None:
        """What is protected below a directory, which may be a pattern, from what is done with all that lies there."""
        found = self._below(path)
        if found is None or (found.access == "read" and not written):
            return None
        # a project may hold its own; what no tool may touch is nobody's
        return None if found.access == "read" and self.is_inside(path) else found

    def stands_on(self, path: str) -> Kept | None:
        """What is protected in a directory of the project, for which another may be put in its place."""
        is_root = _all_below(_folded(path)) == _folded(self.root)
        return self._below(path) if self.is_inside(path) and not is_root else None

    def _below(self, path: str) -> Kept | None:
        named = _all_below(_folded(path))
        found = self.above.get(named)
        if found is None and _GLOB.search(path) is not None:
            found = next((self.above[one] for one in self.above if _same(named, one)), None)
        return found

    def is_system(self, path: str) -> bool:
        """Whether losing a path, which may be a pattern, is losing the computer, a home or what is protected."""
        named = _all_below(_folded(path))
        is_pattern = _GLOB.search(path) is not None
        if named in _SYSTEM or (is_pattern and any(_same(named, one) for one in _SYSTEM)):
            return True
        is_home = len(named) == 2 and named[0] in ("home", "users")
        return is_home or any(_above(named, one) for one in self.lost)

    def is_device(self, path: str) -> bool:
        """Whether a path is a disk, or the memory."""
        path = lexical(path)
        if not path.startswith("/dev/"):
            return False
        return any(fnmatchcase(path[5:], one) for one in HARDLINE.devices)


def _all_below(named: tuple[str, ...]) -> tuple[str, ...]:
    """The directory where a path is all that lies in one."""
    return named[:-1] if named and _EVERYTHING.fullmatch(named[-1]) else named


def _is_below(path: str, of: str) -> bool:
    """Whether an absolute path is another, or below it."""
    return path == of or path.startswith(of.rstrip("/") + "/")


def ground(root: str, home: str, service: Sequence[str], links: Mapping[str, str]) -> Ground:
    """The ground of a session in `root`. `service`: the service's own directories and files."""
    led = tuple(links.get(one, one) for one in protected_paths(root, home, service))
    return replace(_ground(root, home, tuple(service), led), links=links)


@lru_cache(maxsize=_GROUNDS)
def _ground(root: str, home: str, service: tuple[str, ...], led: tuple[str, ...]) -> Ground:
    """The same for every line of a session, until one of its protected paths leads elsewhere."""
    kept: dict[Kept, None] = {}
    leads = iter(led)
    for path, one in _protected(root, home, service):
        anywhere = not path.startswith("/")
        for by in dict.fromkeys([path, path if anywhere else next(leads)]):
            kept[Kept(_folded(by), one.access, one.why, anywhere)] = None
    lost = [one.parts for one in kept if one.access == "none" and not one.anywhere]
    fixed: dict[tuple[str, ...], Kept] = {}
    above: dict[tuple[str, ...], Kept] = {}
    # the strictest of a path comes last
    for found in sorted(kept, key=lambda one: -_STRICTEST.index(one.access)):
        if found.anywhere:
            continue
        fixed[found.parts] = found
        if found.access in ("none", "read"):
            above.update((found.parts[:size], found) for size in range(len(found.parts)))
    loose = tuple(found for found in kept if found.anywhere)
    return Ground(root, home, tuple(kept), (_folded(home), *lost), fixed, above, loose)


@lru_cache(maxsize=_GROUNDS)
def _protected_paths(root: str, home: str, service: tuple[str, ...]) -> list[str]:
    return [path for path, _ in _protected(root, home, service) if path.startswith("/")]


def protected_paths(root: str, home: str, service: Sequence[str]) -> list[str]:
    """The protected paths that may be links themselves."""
    return _protected_paths(root, home, tuple(service))


def _protected(root: str, home: str, service: Sequence[str]) -> Iterator[tuple[str, Protected]]:
    """Each protected path with its `{{…}}` filled in; one that may lie anywhere is relative."""
    for one in _PROTECTED:
        if one.path == "{{service}}":
            yield from ((path, one) for path in service)
        else:
            path = one.path.replace("{{home}}", home).replace("{{project}}", root)
            yield path.removeprefix("{{part}}/"), one


@lru_cache(maxsize=_PATHS)
def _folded(path: str) -> tuple[str, ...]:
    """The parts of a path, in small letters: a file system may not care for case."""
    return parts(path.lower())


#: without the home, which is among what is lost
_SYSTEM: Final = frozenset(_folded(one) for one in HARDLINE.system if one.startswith("/"))


def _fits(pattern: str, name: str) -> bool:
    """Whether a part of a path, which may be a pattern, may be this one."""
    if pattern == name:
        return True
    # a pattern does not find hidden files, unless it says so
    hidden = name.startswith(".") and pattern[:1] in ("*", "?", "[")
    return not hidden and fnmatchcase(name, pattern)


def _same(named: Sequence[str], of: Sequence[str]) -> bool:
    return len(named) == len(of) and all(map(_fits, named, of))


def _above(named: Sequence[str], of: Sequence[str]) -> bool:
    """Whether `of` is the same or below."""
    return len(named) <= len(of) and all(map(_fits, named, of))


def _covers(kept: Kept, named: tuple[str, ...]) -> bool:
    size = len(kept.parts)
    return any(named[at : at + size] == kept.parts for at in range(len(named) - size + 1))


def _may_cover(kept: Kept, named: tuple[str, ...]) -> bool:
    size = len(kept.parts)
    room = len(named) - size + 1
    starts = range(room if kept.anywhere else min(1, room))
    return any(all(map(_fits, named[at : at + size], kept.parts)) for at in starts)
