"""What was being typed, kept on the disk: for each session, and for each directory without one."""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from lembasd.device import private_file
from lembasd.device.paths import Paths
from lembasd.protocol.errors import ConfigError

#: a longer draft is not kept
MAX_DRAFT_BYTES: Final = 1_000_000
#: drafts that nobody came back to for so long are taken away
KEPT_S: Final = 60 * 24 * 3600.0


class Drafts:
    """The drafts of one install, in files that are the person's alone."""

    def __init__(self, paths: Paths) -> None:
        self._directory = paths.state / "drafts"

    def load(self, session_id: str, cwd: str) -> str:
        """The draft, "" for none."""
        try:
            kept = private_file.read(self._file(session_id, cwd))
        except (ConfigError, OSError):
            return ""
        return "" if kept is None else kept.decode(errors="replace")

    def save(self, session_id: str, cwd: str, text: str) -> None:
        """Keep it; an empty one is forgotten. Never raises: a full disk must not end what is typed."""
        path = self._file(session_id, cwd)
        with suppress(OSError):
            if text.strip() and len(text.encode(errors="replace")) <= MAX_DRAFT_BYTES:
                private_file.write(path, text.encode(errors="replace"))
            else:
                path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Take away what is old."""
        oldest = time.time() - KEPT_S
        with suppress(OSError):
            for path in self._directory.iterdir():
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _file(self, session_id: str, cwd: str) -> Path:
        name = session_id or hashlib.sha256(os.fsencode(cwd)).hexdigest()[:24]
        return self._directory / name
