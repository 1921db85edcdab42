"""systemd's manager of the user: a service that is activated by its socket."""

import os
from pathlib import Path
from typing import Final

from lembasd.cli.core import service_files
from lembasd.cli.service_managers import api
from lembasd.device.paths import Paths
from lembasd.protocol.errors import UsageError

SERVICE: Final = "lembasd.service"
SOCKET: Final = "lembasd.socket"
_SYSTEMCTL: Final = ("systemctl", "--user")


class Systemd:
    """Units in the person's own directory; nothing of the system's is touched."""

    name = "systemd"
    starts_by = "start it with `systemctl --user start lembasd.socket lembasd`"

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def files(self) -> dict[Path, str]:
        try:
            service = service_files.systemd_service(
                api.template(f"systemd/{SERVICE}"), api.program(), api.places()
            )
        except service_files.CannotBeWritten as error:
            raise UsageError(f"{error}; choose another place for it") from None
        return {_units() / SERVICE: service, _units() / SOCKET: self._socket_unit()}

    def _socket_unit(self) -> str:
        template, runtime = api.template(f"systemd/{SOCKET}"), os.environ.get("XDG_RUNTIME_DIR")
        try:
            return service_files.systemd_socket(template, str(self._paths.socket), runtime)
        except service_files.CannotBeWritten as error:
            raise UsageError(f"{error}; choose another place for it") from None

    def is_installed(self) -> bool:
        wanted = _listens(self._socket_unit())
        return wanted is not None and _listens(_written(_units() / SOCKET)) == wanted

    def is_active(self) -> bool:
        return api.ask(*_SYSTEMCTL, "is-active", "--quiet", SOCKET).returncode == 0 or (
            api.ask(*_SYSTEMCTL, "is-active", "--quiet", SERVICE).returncode == 0
        )

    def install(self) -> list[str]:
        files = self.files()
        other = _listens(_written(_units() / SOCKET))
        if other is not None and not self.is_installed():
            raise UsageError(
                f"the service is there for another installation, which listens at {other}; "
                f"run `lembasd uninstall` there first, or remove {_units() / SOCKET}"
            )
        self._reach()
        said = api.write_files(files)
        runs = api.ask(*_SYSTEMCTL, "is-active", "--quiet", SERVICE).returncode == 0
        api.demand(*_SYSTEMCTL, "daemon-reload")
        api.demand(*_SYSTEMCTL, "enable", "--now", SOCKET, SERVICE)
        if runs:
            said.append(
                "it runs already; `systemctl --user restart lembasd` has it use what was written, sessions go on"
            )
        return [*said, *self.lingering()]

    def uninstall(self) -> list[str]:
        if not self.is_installed():
            return []
        self._reach()
        api.demand(*_SYSTEMCTL, "disable", "--now", SOCKET, SERVICE)
        said = api.remove_files({_units() / SERVICE: "", _units() / SOCKET: ""})
        api.demand(*_SYSTEMCTL, "daemon-reload")
        return said

    def stop(self) -> None:
        # the socket first, so that nobody who connects meanwhile starts it again
        api.demand(*_SYSTEMCTL, "stop", SOCKET)
        api.demand(*_SYSTEMCTL, "stop", SERVICE)

    def lingering(self) -> list[str]:
        """What becomes of the service when its person logs out, where that is not what one wants."""
        done = api.ask("loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value")
        if done.returncode == 0 and done.stdout.strip() == "yes":
            return []
        return [
            "it ends when you log out; run `loginctl enable-linger` once to have it run always, from the start of the machine"
        ]

    def _reach(self) -> None:
        """Raises UsageError when there is no manager of the user to talk to."""
        done = api.ask(*_SYSTEMCTL, "show-environment")
        if done.returncode == 0:
            return
        runtime = f"/run/user/{os.getuid()}"
        if not os.environ.get("XDG_RUNTIME_DIR") and Path(runtime).is_dir():
            remedy = f"set XDG_RUNTIME_DIR={runtime} (after `su` it is not), then try again"
        else:
            remedy = "log in to this machine as yourself, or run `loginctl enable-linger`, then try again"
        raise UsageError(f"systemd's manager of your user cannot be reached; {remedy}")


def _written(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _listens(unit: str) -> str | None:
    """Where a socket unit listens: what tells one installation from another."""
    name = "ListenStream="
    found = (line.removeprefix(name) for line in unit.splitlines() if line.startswith(name))
    return next(found, None)


def _units() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"
