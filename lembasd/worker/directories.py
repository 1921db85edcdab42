"""`_lembas/directories`: which directories the device has, and whether `session/new` would take each. Blocks."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import UNSET

from lembasd.device import limits
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.lembas import Dir, DirListing, Places

#: directories in one answer; of more, the answer says how many it leaves out
MAX_ENTRIES: Final = 2_000
#: names of a directory that are looked at; what comes after them is not found
MAX_SCANNED: Final = 100_000


def look(path: str, settings: Settings) -> Places | DirListing:
    """The answer: of the directory `path`, or of the places where that is empty. Raises RequestRefused."""
    return listing(path, settings) if path else places(settings)


def places(settings: Settings) -> Places:
    """The roots and every trusted directory inside them, each once."""
    roots = limits.resolved_roots(settings)
    named = [
        (Path(root).expanduser(), at)
        for root, at in zip(settings.remote.roots, roots, strict=False)
    ]
    trusted = [Path(one) for one in settings.trusted]
    inside = [(one, one) for one in trusted if any(limits.is_inside(one, root) for root in roots)]
    found = {at: _dir(at, name.name, settings) for name, at in reversed([*named, *inside])}
    return Places("", list(reversed(found.values())))


def listing(path: str, settings: Settings) -> DirListing:
    """A directory inside the roots and those in it. Raises RequestRefused (-32602) for any other."""
    directory = limits.judge_inside(path, settings)
    about = _dir(directory, directory.name, settings)
    parent = directory.parent
    is_allowed = parent != directory and limits.is_allowed(parent, settings)
    entries: list[Dir] = []
    error: str | None = None
    try:
        names = sorted(_directories(directory), key=_order)
    except OSError as problem:
        error = f"{directory} cannot be read: {problem.strerror or problem}; see to its rights"
    else:
        entries = [_dir(directory / name, name, settings) for name in names[:MAX_ENTRIES]]
        if len(names) > MAX_ENTRIES:
            error = (
                f"{len(names) - MAX_ENTRIES} more directories are left out; name the one you mean"
            )
    return DirListing(
        path=about.path,
        name=about.name,
        accepted=about.accepted,
        parent=str(parent) if is_allowed else None,
        entries=entries,
        reason=UNSET if about.reason is None else about.reason,
        error=UNSET if error is None else error,
    )


def _dir(path: Path, name: str, settings: Settings) -> Dir:
    try:
        limits.judge_root(str(path), settings, local=False)
    except RequestRefused as refused:
        return Dir(str(path), name or str(path), accepted=False, reason=refused.message)
    return Dir(str(path), name or str(path), accepted=True)


def _directories(directory: Path) -> Iterator[str]:
    """The names of those in it, links to some as well; one that is no UTF-8 is left out, for no JSON could give it."""
    with os.scandir(directory) as scan:
        for entry, _ in zip(scan, range(MAX_SCANNED), strict=False):
            if _is_directory(entry) and _is_text(entry.name):
                yield entry.name


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _order(name: str) -> tuple[bool, str, str]:
    """By name, those that begin with a dot last."""
    return name.startswith("."), name.casefold(), name
