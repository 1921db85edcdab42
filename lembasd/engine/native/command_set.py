"""The commands of a session: those built in, and a Markdown file each of the project's and of the person's own."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from lembasd.engine.native.core import commands
from lembasd.engine.native.core.commands import Command
from lembasd.engine.native.tools.outcome import Unusable
from lembasd.engine.native.tools.text_file import decoded, read_bytes
from lembasd.harness.loader import COMMANDS

__all__ = ["COMMANDS", "available"]

#: where a project's are
FOLDER: Final = (".agent", "commands")
#: of one file; a longer one is no command
MAX_BYTES: Final = 64 * 1024
#: files of one directory that are read, by their names' order; more are no commands
MAX_FILES: Final = 200
#: names of a directory that are looked at: with more it is none of commands
_MAX_NAMES: Final = 5000
_SUFFIX: Final = ".md"


def available(root: Path, own: Path, protected: Iterable[Path]) -> dict[str, Command]:
    """Every command of a session in `root`, by name and in the set's order. Blocks; never raises.

    A file of the project counts when it is in the project, links followed, and not `protected`; of the person's own any.
    """
    shut = list(protected)

    def is_projects(path: Path) -> bool:
        inside = root == path or root in path.parents
        return inside and not any(path == one or one in path.parents for one in shut)

    project = _read(root.joinpath(*FOLDER), is_projects, own=False)
    return commands.together(project, _read(own, lambda _path: True, own=True))


def _read(folder: Path, may_read: Callable[[Path], bool], *, own: bool) -> Iterator[Command]:
    for name in _names(folder, may_read):
        try:
            path = (folder / f"{name}{_SUFFIX}").resolve(strict=True)
            if not may_read(path):
                continue
            text = decoded(read_bytes(path, name, MAX_BYTES), name).text
        except (OSError, RuntimeError, ValueError, Unusable):
            continue  # a link to nowhere, a directory, a pipe, a binary file, a book: no command
        # half characters and broken bytes go to no model
        command = commands.read(name, text.encode(errors="replace").decode(), own=own)
        if command.body:
            yield command


def _names(folder: Path, may_read: Callable[[Path], bool]) -> list[str]:
    try:
        real = folder.resolve(strict=True)
        if not may_read(real):
            return []
        with os.scandir(real) as scan:
            entries = [one.name for one, _ in zip(scan, range(_MAX_NAMES), strict=False)]
    except (OSError, RuntimeError):
        return []
    names = (one.removesuffix(_SUFFIX) for one in entries if one.endswith(_SUFFIX))
    return sorted(name for name in names if commands.is_name(name))[:MAX_FILES]
