"""Deleting a session: its journal and images, its attachments, its turns file. Everything here blocks.

The session is gone with one rename; what is left after a death in the middle is swept later.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from lembasd.device.paths import Paths
from lembasd.protocol.ids import is_session_id
from lembasd.store import deletes, turns
from lembasd.store.journal import hold, sync_directory

#: a directory of this name is what is left of a session
_GONE: Final = ".deleted-"
#: what is kept of all sessions for a list and a search (store/catalogue.py)
CATALOGUE: Final = "catalogue.sqlite"


def delete(paths: Paths, session_id: str, *, tell: bool) -> None:
    """Delete a session that nobody has open. `tell`: the instance is to hear of it.

    Raises NoSession, SessionLocked, OSError: then it is there as before.
    """
    lock = hold(paths.session(session_id), session_id)
    try:
        remove(paths, session_id, tell=tell)
    finally:
        os.close(lock)


def remove(paths: Paths, session_id: str, *, tell: bool) -> None:
    """The same, by who holds its lock. Raises OSError: then the session is there as before."""
    if tell:
        # before: a death in between leaves a word of a session that is there, which is not sent
        deletes.keep(paths, session_id)
    directory = paths.session(session_id)
    gone = directory.with_name(f"{_GONE}{session_id}")
    # of an earlier session of this name nothing is left but what could not be removed
    shutil.rmtree(gone, ignore_errors=True)
    directory.rename(gone)
    sync_directory(directory.parent)
    if tell:
        deletes.gone(paths)
    _clear(paths, session_id)


def _clear(paths: Paths, session_id: str) -> None:
    shutil.rmtree(paths.sessions / f"{_GONE}{session_id}", ignore_errors=True)
    shutil.rmtree(paths.attachments / session_id, ignore_errors=True)
    if (paths.state / CATALOGUE).exists():
        # imported here alone: no other process of ours needs SQLite
        from lembasd.store import catalogue

        catalogue.forget(paths, session_id)
    try:
        turns.path_of(paths, session_id).unlink(missing_ok=True)
    except OSError:
        pass  # the next sweep tries it again


def sweep(paths: Paths) -> None:
    """Remove what is left of sessions whose deletion was cut off. Never raises."""
    try:
        left = {*_left(paths.sessions), *_of(paths.attachments), *_of(paths.turns)}
    except OSError:
        return
    for session_id in left:
        # looked at after the listing: whatever belongs to a session was made after its directory
        if not paths.session(session_id).exists():
            _clear(paths, session_id)


def _left(sessions: Path) -> list[str]:
    names = [one.name.removeprefix(_GONE) for one in sessions.iterdir() if _GONE in one.name]
    return [name for name in names if is_session_id(name)]


def _of(directory: Path) -> list[str]:
    """The sessions that have something in a directory with one entry for each."""
    try:
        names = [one.name.removesuffix(".json") for one in directory.iterdir()]
    except FileNotFoundError:
        return []
    return [name for name in names if is_session_id(name)]
