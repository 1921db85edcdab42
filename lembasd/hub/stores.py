"""How a session's store stands, as far as the hub looks: is there a journal, and who holds the lock."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from lembasd.device.paths import Paths
from lembasd.protocol.ids import is_session_id


def holder(lock: Path) -> int | None:
    """The pid written in a session's lock file while somebody holds it (0: it is not written yet); else None."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0)
        return int(text) if text.strip().isdigit() else 0
    finally:
        os.close(handle)
    return None


def prober(paths: Paths) -> Callable[[str], tuple[bool, int | None]]:
    """(a session's journal exists, the pid that holds its lock or None). Small stats of our own directory only."""

    def probe(session: str) -> tuple[bool, int | None]:
        if not is_session_id(session):
            return False, None
        directory = paths.session(session)
        return (directory / "journal.jsonl").exists(), holder(directory / "lock")

    return probe


def holders(paths: Paths) -> dict[str, int]:
    """The sessions whose lock is held, and by which pid."""
    try:
        names = [path.name for path in paths.sessions.iterdir() if is_session_id(path.name)]
    except OSError:
        return {}
    found = {name: holder(paths.session(name) / "lock") for name in names}
    return {name: pid for name, pid in found.items() if pid is not None}
