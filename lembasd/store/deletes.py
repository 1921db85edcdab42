"""outbox/deleted/: the sessions that were deleted here and of which the instance has not heard yet.

One empty file each, named by the session. Small looks at our own directory only.
"""

import os
from contextlib import suppress
from pathlib import Path

from lembasd.device.damaged import clear_the_way, set_aside
from lembasd.device.paths import Paths
from lembasd.protocol.ids import is_session_id
from lembasd.store.journal import sync_directory


def _directory(paths: Paths) -> Path:
    return paths.outbox / "deleted"


def keep(paths: Paths, session_id: str) -> None:
    """Note that a session is about to be deleted. On the disk when this returns. Raises OSError."""
    directory = _directory(paths)
    for one in (paths.outbox, directory):
        if one.exists() and not one.is_dir():
            set_aside(one, "it is no directory")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(
        directory / session_id, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600
    )
    os.close(handle)
    sync_directory(directory)


def gone(paths: Paths) -> None:
    """The session of a word that was kept is gone: whoever looks whether there are new ones sees it. Never raises."""
    with suppress(OSError):
        os.utime(_directory(paths))


class Deletes:
    """What is kept in one install."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._seen = self._changed_at()

    def changed(self) -> bool:
        """Whether any process kept or forgot one since the last look. A stat; never raises."""
        before, self._seen = self._seen, self._changed_at()
        return self._seen != before

    def _changed_at(self) -> int:
        try:
            return _directory(self._paths).stat().st_mtime_ns
        except OSError:
            return 0

    def kept(self) -> list[str]:
        """The sessions that are gone and not told of. Never raises."""
        try:
            names = sorted(one.name for one in _directory(self._paths).iterdir())
        except OSError:
            return []
        # one that is there is being deleted, or its deletion was cut off before it began
        return [
            name for name in names if is_session_id(name) and not self._paths.session(name).exists()
        ]

    def forget(self, session_id: str) -> None:
        """The instance was told. Never raises: what cannot be forgotten is told again, which it ignores."""
        path = _directory(self._paths) / session_id
        if clear_the_way(path):
            with suppress(OSError):
                path.unlink(missing_ok=True)
