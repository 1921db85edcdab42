"""The directory that keeps an instance's logins, sessions, use and account: one instance's at a time."""

import fcntl
import os
from pathlib import Path

from lembasd.protocol.errors import UsageError


class DataDir:
    """A directory whose lock is held until `release`."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError when it cannot be used, or another instance uses it."""
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be used ({error.strerror}); give another --data"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise UsageError(
                f"another instance uses {path}; end it, or give another --data"
            ) from error
        self._handle = handle
        self.tokens = path / "tokens.json"
        self.sessions = path / "sessions.json"
        self.terminals = path / "terminals.json"
        self.deletions = path / "deletions.json"
        self.use = path / "use.json"
        self.account = path / "account.json"

    def release(self) -> None:
        os.close(self._handle)
