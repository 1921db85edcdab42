"""Where everything lies (interface.md, Directories).

XDG paths on Linux and macOS alike; `LEMBAS_HOME=DIR` puts all of it below DIR.
"""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from platformdirs.unix import Unix

APP: Final = "lembas"
#: bytes of a Unix socket's path without its closing NUL: 104 on macOS, 108 on Linux; the shorter holds on both
MAX_SOCKET_PATH_BYTES: Final = 103


@dataclass(frozen=True)
class Paths:
    """The three directories of one install; everything else is below them."""

    config: Path
    state: Path
    run: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.yaml"

    @property
    def credentials_file(self) -> Path:
        return self.config / "credentials.json"

    @property
    def trust_file(self) -> Path:
        return self.config / "trust.json"

    @property
    def commands(self) -> Path:
        """The person's own commands, a Markdown file each."""
        return self.config / "commands"

    @property
    def sessions(self) -> Path:
        return self.state / "sessions"

    def session(self, session_id: str) -> Path:
        return self.sessions / session_id

    @property
    def turns(self) -> Path:
        return self.state / "turns"

    @property
    def attachments(self) -> Path:
        """A directory for each session that was sent files."""
        return self.state / "attachments"

    @property
    def outbox(self) -> Path:
        """What the instance has yet to hear."""
        return self.state / "outbox"

    @property
    def log(self) -> Path:
        return self.state / "log"

    @property
    def socket(self) -> Path:
        return self.run / "hub.sock"

    @property
    def hub_lock(self) -> Path:
        """Held exclusively by the one hub; its text is the hub's pid."""
        return self.run / "hub.lock"

    @property
    def members_lock(self) -> Path:
        """Held shared by every process of ours: whoever gets it exclusively knows that all are gone."""
        return self.run / "members.lock"

    @property
    def stopping(self) -> Path:
        """The marker that tells processes without a hub that the stop was meant."""
        return self.run / "stopping"

    def make(self) -> None:
        """Make the directories, private to the person (0700). Raises OSError."""
        for directory in (self.config, self.state, self.run, self.sessions, self.turns, self.log):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # under a shared temporary directory somebody else may have made it first
        if self.run.is_symlink() or self.run.stat().st_uid != os.getuid():
            raise PermissionError(
                f"{self.run} belongs to another user; remove it or set LEMBAS_HOME"
            )
        self.run.chmod(0o700)


def _short_run(state: Path) -> Path:
    """A run directory whose socket path fits: named by the long one, so that every process finds the same."""
    name = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"{APP}-{os.getuid()}-{name}"


def find_paths() -> Paths:
    """The paths that the environment says: LEMBAS_HOME, else the XDG variables, else their defaults."""
    home = os.environ.get("LEMBAS_HOME")
    if home:
        base = Path(home).expanduser().absolute()
        config, state, run = base / "config", base / "state", base / "run"
    else:
        dirs = Unix(APP, appauthor=False)
        config, state = Path(dirs.user_config_dir), Path(dirs.user_state_dir)
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        run = Path(runtime) / APP if runtime else state / "run"
    if len(os.fsencode(run / "hub.sock")) > MAX_SOCKET_PATH_BYTES:
        run = _short_run(run)
    return Paths(config=config, state=state, run=run)
