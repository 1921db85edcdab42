"""The sessions of this install, for a list: read from their journals, each line looked at and few decoded."""

import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device.paths import Paths
from lembasd.device.regular import open_regular
from lembasd.store import lines
from lembasd.store.journal import JOURNAL, LOCK
from lembasd.store.records import Created, SettingSet, TitleSet, TurnStarted
from lembasd.store.sessions import holder, listed

#: how the lines begin that say something for a list
_WANTED: Final = tuple(b'{"type":"%s"' % tag for tag in (b"created", b"title", b"setting", b"turn"))


class Listed(Struct, frozen=True):
    """One session. Times are Unix seconds; `pid` is who has it open, None: nobody."""

    session_id: str
    title: str
    root: str
    model: str
    created: float
    changed: float
    turns: int
    pid: int | None
    given: bool


def sessions(paths: Paths) -> list[Listed]:
    """All of them, the one that changed last first. Blocks; a journal that cannot be read is listed by its id."""
    found = [_one(paths.session(session_id)) for session_id in listed(paths)]
    return sorted(
        (one for one in found if one is not None), key=lambda one: (-one.changed, one.session_id)
    )


def session(paths: Paths, session_id: str) -> Listed | None:
    """One session; None for one that is not there. Blocks."""
    return _one(paths.session(session_id))


def _one(directory: Path) -> Listed | None:
    title = root = model = ""
    created, turns, given = 0.0, 0, False
    path = directory / JOURNAL
    try:
        changed = path.stat().st_mtime
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            for line in file:
                if not line.startswith(_WANTED):
                    continue
                try:
                    record = lines.decode(line)
                except ValueError:
                    continue
                match record:
                    case Created():
                        root, model, created, given = (
                            record.root,
                            record.model,
                            record.t,
                            record.given,
                        )
                    case TitleSet():
                        title = record.title
                    case SettingSet(key="model"):
                        model = record.value
                    case TurnStarted():
                        turns += 1
                    case _:
                        pass
    except FileNotFoundError:
        return None  # deleted meanwhile
    except OSError:
        changed = 0.0
    return Listed(
        session_id=directory.name,
        title=title,
        root=root,
        model=model,
        created=created,
        changed=changed,
        turns=turns,
        pid=holder(directory / LOCK),
        given=given,
    )
