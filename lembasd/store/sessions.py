"""Which sessions there are, and which process holds one: small looks at our own directory only."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from lembasd.device import lock as locks
from lembasd.device.paths import Paths
from lembasd.device.regular import open_regular
from lembasd.protocol.ids import is_session_id
from lembasd.store.journal import JOURNAL, LOCK


class Probe(Struct, frozen=True):
    """How a session's store stands. `locked_by`: the holder's pid, 0 while it is not written; None: nobody."""

    exists: bool
    locked_by: int | None = None


def probe(paths: Paths, session_id: str) -> Probe:
    """Look at one session's store. Never raises; what is no session id does not exist."""
    if not is_session_id(session_id):
        return Probe(exists=False)
    directory = paths.session(session_id)
    return Probe(exists=(directory / JOURNAL).exists(), locked_by=holder(directory / LOCK))


def holder(lock: Path) -> int | None:
    """Who holds a session's lock; 0: somebody whose pid cannot be told; None: nobody.

    The kernel's word where it gives one: the file's text could be written by anybody of this user.
    """
    try:
        handle = open_regular(lock, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0).strip()
        said = int(text) if text.isdigit() else 0
        return _confirmed(lock, said)
    finally:
        os.close(handle)
    return None


def _confirmed(lock: Path, said: int) -> int:
    """`said`, unless the kernel names others: then the one that it names, 0 when they are several."""
    with suppress(OSError):
        known = locks.holders(lock)
        if known and said not in known:
            return known.pop() if len(known) == 1 else 0
    return said


def listed(paths: Paths) -> list[str]:
    """The ids of all sessions that have a directory."""
    try:
        return sorted(one for one in os.listdir(paths.sessions) if is_session_id(one))  # noqa: PTH208 - no Path for each
    except OSError:
        return []
