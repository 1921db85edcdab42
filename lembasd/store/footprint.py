"""How much is stored of each session, and since when it has not changed: looks at sizes and times, reads nothing."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lembasd.device.paths import Paths
from lembasd.store import attachments, images, pre_images, turns
from lembasd.store.core.retention import Stored
from lembasd.store.journal import DAMAGED, JOURNAL, LOCK
from lembasd.store.sessions import holder, listed

#: directories in directories that are looked into; ours are two deep
MAX_DEPTH: Final = 8


def stored(paths: Paths) -> list[Stored]:
    """Every session that has a journal. Blocks, never raises."""
    found = (_stored(paths, session_id) for session_id in listed(paths))
    return [one for one in found if one is not None]


def _stored(paths: Paths, session_id: str) -> Stored | None:
    directory = paths.session(session_id)
    try:
        changed = (directory / JOURNAL).stat().st_mtime
    except OSError:
        return None  # deleted meanwhile, or none of ours
    attached = size_of(attachments.directory(paths, session_id))
    return Stored(
        session_id=session_id,
        changed=changed,
        is_open=holder(directory / LOCK) is not None,
        total_bytes=size_of(directory) + attached + size_of(turns.path_of(paths, session_id)),
        attachments_bytes=attached + size_of(directory / images.FOLDER),
        undo_bytes=sum(size_of(directory / name) for name in pre_images.NAMES),
        damaged_bytes=size_of(directory / DAMAGED),
        damaged_at=_time_of(directory / DAMAGED),
    )


def size_of(path: Path) -> int:
    """The bytes of a file, or of all files below a directory; links count as themselves. 0 for what is not there."""
    return sum(_sizes(path, MAX_DEPTH))


def _sizes(path: Path, depth: int) -> Iterator[int]:
    try:
        if path.is_dir() and not path.is_symlink():
            with os.scandir(path) as entries:
                for one in entries:
                    if not one.is_dir(follow_symlinks=False):
                        yield one.stat(follow_symlinks=False).st_size
                    elif depth:
                        yield from _sizes(Path(one.path), depth - 1)
        else:
            yield path.lstat().st_size
    except OSError:
        return  # gone meanwhile


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
