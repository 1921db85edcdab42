"""The catalogue of sessions: a list and a search over what was said, derived from the journals and rebuilt from them.

A SQLite database beside the sessions. A journal counts as read while its size and time are those of its row; whoever looks
brings the rows up to date first. One that cannot be used is thrown away: nothing is in it that is not in the journals.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from lembasd.device.lock import flocks
from lembasd.device.paths import Paths
from lembasd.protocol.errors import UsageError
from lembasd.store import listing
from lembasd.store.core.fold import fold
from lembasd.store.core.searched import passages, query
from lembasd.store.deleting import CATALOGUE
from lembasd.store.journal import JOURNAL, LOCK, NoSession, read
from lembasd.store.listing import Listed
from lembasd.store.sessions import holder, listed

#: raised with every change of the tables: a database of another number is thrown away
_VERSION: Final = 1
#: another command that brings the catalogue up to date is waited for so long
BUSY_S: Final = 10.0
#: sessions that one search names
MAX_FOUND: Final = 50
_TABLES: Final = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, stamp TEXT, title TEXT, root TEXT, model TEXT,
    created REAL, changed REAL, turns INTEGER, given INTEGER);
CREATE TABLE searched (id TEXT PRIMARY KEY, stamp TEXT);
CREATE VIRTUAL TABLE said USING fts5(
    id UNINDEXED, role UNINDEXED, turn_id UNINDEXED, text, tokenize = 'unicode61 remove_diacritics 2');
"""
#: what stands around a word that was found, until it is shown
MARKS: Final = ("\x02", "\x03")


class Found(Struct, frozen=True):
    """A session in which all words were said. `excerpt` has them between `MARKS`; `count` messages had them."""

    session_id: str
    title: str
    root: str
    changed: float
    role: str
    turn_id: str
    excerpt: str
    count: int


def path_of(paths: Paths) -> Path:
    return paths.state / CATALOGUE


def sessions(paths: Paths) -> list[Listed]:
    """Every session, the one that changed last first: only journals that changed are read. Blocks."""
    try:
        with _open(paths) as database:
            return _listed(paths, database)
    except sqlite3.Error:
        return listing.sessions(paths)


def search(paths: Paths, words: str, limit: int = MAX_FOUND) -> list[Found]:
    """The sessions in which all these words were said in one message, the best match first. Blocks.

    Raises UsageError where there is nothing to search for, or no database to search in.
    """
    asked = query(words)
    if not asked:
        raise UsageError("there is no word to search for; write one")
    try:
        with _open(paths) as database:
            known = {one.session_id: one for one in _listed(paths, database)}
            _index(paths, database, known)
            return _found(database, asked, known, limit)
    except sqlite3.Error as error:
        raise UsageError(
            f"the sessions cannot be searched ({error}); remove {path_of(paths)}, then try again"
        ) from error


def forget(paths: Paths, session_id: str) -> None:
    """Leave nothing of a deleted session. Never raises: what is left is gone with the next search."""
    with suppress(sqlite3.Error), _open(paths) as database:
        database.execute("PRAGMA secure_delete = ON")
        _forget(database, session_id)
        with _writing(database):
            database.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            # its words are in the index until that is written anew
            database.execute("INSERT INTO said (said) VALUES ('optimize')")


# ── the database ────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _open(paths: Paths) -> Iterator[sqlite3.Connection]:
    """The database, made anew where it cannot be used. Raises sqlite3.Error."""
    path = path_of(paths)
    try:
        database = _connected(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise
        with suppress(OSError):  # SQLite says why it cannot be
            for name in (path, Path(f"{path}-journal")):
                name.unlink(missing_ok=True)
        database = _connected(path)
    with closing(database):
        yield database


def _connected(path: Path) -> sqlite3.Connection:
    with suppress(OSError):  # SQLite says why it cannot be
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
    database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        # nothing in it is lost with it
        database.execute("PRAGMA synchronous = OFF")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            with _writing(database):
                (version,) = database.execute("PRAGMA user_version").fetchone()
                if version == 0:  # nobody was faster
                    for statement in _TABLES.split(";\n"):
                        database.execute(statement)
                    database.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise sqlite3.DatabaseError("it is of another version")
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def _writing(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


# ── bringing it up to date ──────────────────────────────────────────────────────────────────────


def _listed(paths: Paths, database: sqlite3.Connection) -> list[Listed]:
    stamps = _stamps(paths)
    rows = {row[0]: row[1:] for row in database.execute("SELECT * FROM sessions")}
    changed = [one for one, stamp in stamps.items() if one not in rows or rows[one][0] != stamp]
    gone = [one for one in rows if one not in stamps]
    if changed or gone:
        with _writing(database):
            for one in gone:
                del rows[one]
                database.execute("DELETE FROM sessions WHERE id = ?", (one,))
            for one in changed:
                rows.pop(one, None)
                found = listing.session(paths, one)
                if found is not None:  # else it is deleted meanwhile
                    rows[one] = _row(found, stamps[one])
                    database.execute(
                        "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        (one, *rows[one]),
                    )
    pids = _pids(paths, rows)
    found_all = [
        Listed(
            session_id=one,
            title=title,
            root=root,
            model=model,
            created=created,
            changed=changed_at,
            turns=turns,
            pid=pids.get(one),
            given=bool(given),
        )
        for one, (_, title, root, model, created, changed_at, turns, given) in rows.items()
    ]
    return sorted(found_all, key=lambda one: (-one.changed, one.session_id))


def _row(found: Listed, stamp: str) -> tuple[Any, ...]:
    return (
        stamp,
        found.title,
        found.root,
        found.model,
        found.created,
        found.changed,
        found.turns,
        found.given,
    )


def _pids(paths: Paths, sessions: Iterable[str]) -> dict[str, int | None]:
    """Who has each of these sessions open: one look at the kernel's list, where it has one."""
    held = flocks()
    if held is None:
        return {one: holder(paths.session(one) / LOCK) for one in sessions}
    base, found = os.fspath(paths.sessions), {}
    for one in sessions:
        with suppress(OSError):
            found[one] = held.get(os.stat(f"{base}/{one}/{LOCK}").st_ino)  # noqa: PTH116 - for each
    return found


def _stamps(paths: Paths) -> dict[str, str]:
    """The stamp of each session's journal that is there."""
    base = os.fspath(paths.sessions)
    stamps = {one: _stamp(f"{base}/{one}/{JOURNAL}") for one in listed(paths)}
    return {one: stamp for one, stamp in stamps.items() if stamp}


def _index(paths: Paths, database: sqlite3.Connection, known: dict[str, Listed]) -> None:
    stamps = dict(database.execute("SELECT id, stamp FROM searched"))
    for one in stamps.keys() - known.keys():
        _forget(database, one)
    now = _stamps(paths)
    for one in known:
        stamp = now.get(one)
        if stamp is None or stamps.get(one) == stamp:
            continue
        try:
            history = fold(read(paths, one).records).history
        except (NoSession, OSError):
            continue
        with _writing(database):
            database.execute("DELETE FROM said WHERE id = ?", (one,))
            database.executemany(
                "INSERT INTO said VALUES (?, ?, ?, ?)",
                [(one, said.role, said.turn_id, said.text) for said in passages(history)],
            )
            database.execute("INSERT OR REPLACE INTO searched VALUES (?, ?)", (one, stamp))


def _forget(database: sqlite3.Connection, session_id: str) -> None:
    with _writing(database):
        database.execute("DELETE FROM said WHERE id = ?", (session_id,))
        database.execute("DELETE FROM searched WHERE id = ?", (session_id,))


def _found(
    database: sqlite3.Connection, asked: str, known: dict[str, Listed], limit: int
) -> list[Found]:
    best: dict[str, tuple[str, str, int]] = {}
    count: dict[str, int] = {}
    rows = database.execute(
        "SELECT id, role, turn_id, rowid FROM said WHERE said MATCH ? ORDER BY rank", (asked,)
    )
    for session_id, role, turn_id, row in rows:
        count[session_id] = count.get(session_id, 0) + 1
        best.setdefault(session_id, (role, turn_id, row))
    found: list[Found] = []
    for session_id, (role, turn_id, row) in best.items():
        about = known.get(session_id)
        if about is None or len(found) == limit:
            continue
        (excerpt,) = database.execute(
            "SELECT snippet(said, 3, ?, ?, '…', 16) FROM said WHERE said MATCH ? AND rowid = ?",
            (*MARKS, asked, row),
        ).fetchone()
        found.append(
            Found(
                session_id=session_id,
                title=about.title,
                root=about.root,
                changed=about.changed,
                role=role,
                turn_id=turn_id,
                excerpt=excerpt,
                count=count[session_id],
            )
        )
    return found


def _stamp(journal: str) -> str:
    """What a journal's size and time are; "" for one that is not there."""
    try:
        about = os.stat(journal)  # noqa: PTH116 - for each session of a list
    except OSError:
        return ""
    return f"{about.st_ino}:{about.st_size}:{about.st_mtime_ns}"
