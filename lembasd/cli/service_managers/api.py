"""What `lembasd install`, `uninstall`, `stop` and `doctor` need of a service manager."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Protocol

from lembasd.device.paths import Paths
from lembasd.device.runtime import under_service_manager
from lembasd.protocol.errors import UsageError

#: of one question to a manager; one that takes longer hangs
ANSWER_S: Final = 60.0
#: what another installation is found by, so a service that runs elsewhere must be told it
_PLACES: Final = ("LEMBAS_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
#: of an installed package, and of a checkout
_TEMPLATES: Final = (Path(__file__).parents[2] / "service_files", Path(__file__).parents[3])


class Manager(Protocol):
    """One service manager, for one installation."""

    name: str
    #: how a person starts it after it was stopped
    starts_by: str

    def files(self) -> dict[Path, str]:
        """What is to be written where. Raises UsageError for a path that no such file can hold."""

    def is_installed(self) -> bool:
        """Whether its files are there, for this installation and no other."""

    def is_active(self) -> bool:
        """Whether it runs, or listens for, this installation's hub."""

    def install(self) -> list[str]:
        """Write the files and start the service; sentences for the person. Raises UsageError, OSError."""

    def uninstall(self) -> list[str]:
        """Stop the service and remove its files; sentences for the person. Raises UsageError, OSError."""

    def lingering(self) -> list[str]:
        """A sentence where the service ends with the person's login, and what to do."""

    def stop(self) -> None:
        """Stop it until it is started again; a no-op where it is not active. Raises UsageError."""


def places() -> dict[str, str]:
    """The variables that say which installation is meant, as they are set here."""
    return {name: os.environ[name] for name in _PLACES if os.environ.get(name)}


def program() -> str:
    """The command `lembasd` as it was called, else as it was installed: an absolute path. Raises UsageError."""
    called = shutil.which(sys.argv[0]) if sys.argv and sys.argv[0] else None
    beside = Path(sys.executable).parent / "lembasd"
    for one in (called, str(beside)):
        # not resolved: a link in ~/.local/bin stays when the environment behind it is made anew
        if one is not None and Path(one).name == "lembasd" and os.access(one, os.X_OK):
            return str(Path(one).absolute())
    raise UsageError("the command `lembasd` is not found; install lembasd again, then call it")


def template(name: str) -> str:
    """The text of a file in `systemd/` or `launchd/`. Raises UsageError."""
    for base in _TEMPLATES:
        path = base / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise UsageError(f"{name} is not in this installation; install lembasd again")


def ask(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a manager's own command. Raises UsageError when there is none, or it hangs."""
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(
            f"there is no `{words[0]}` here; run `lembasd run` by other means"
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"`{' '.join(words)}` does not answer; see what it does in a terminal"
        ) from None


def demand(*words: str) -> str:
    """Run a manager's command that must succeed; its output. Raises UsageError with what it said."""
    done = ask(*words)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        raise UsageError(f"`{' '.join(words)}` failed ({why}); try it in a terminal")
    return done.stdout


def write_files(files: dict[Path, str]) -> list[str]:
    """Write what is not there like this already; a sentence for each."""
    said = []
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            said.append(f"{path} is up to date")
            continue
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
        said.append(f"{path} is written")
    return said


def remove_files(files: dict[Path, str]) -> list[str]:
    """Remove what is there; a sentence for each."""
    said = []
    for path in files:
        if path.exists():
            path.unlink()
            said.append(f"{path} is removed")
    return said


def chosen(paths: Paths) -> Manager | None:
    """The manager of this platform; None where it has none that we know."""
    if sys.platform == "darwin":
        from lembasd.cli.service_managers.launchd import Launchd

        return Launchd(paths)
    if sys.platform == "linux":
        from lembasd.cli.service_managers.systemd import Systemd

        return Systemd(paths)
    return None


def refuse_beside(paths: Paths) -> None:
    """Raises UsageError when a service manager has the hub's socket and this process is not what it started."""
    if under_service_manager():
        return
    manager = chosen(paths)
    if manager is not None and manager.is_installed() and manager.is_active():
        raise UsageError(
            f"lembasd is a service of {manager.name}, which runs its hub or listens for it; "
            "use that one, or run `lembasd stop` first"
        )
