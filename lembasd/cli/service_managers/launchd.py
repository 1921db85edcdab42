"""launchd: an agent of the person's graphical session. Not tested on a Mac (docs/operations.md)."""

import os
import plistlib
from pathlib import Path
from xml.parsers.expat import ExpatError

from lembasd.cli.core import service_files
from lembasd.cli.service_managers import api
from lembasd.device.paths import Paths
from lembasd.device.runtime import LAUNCHD_LABEL
from lembasd.protocol.errors import UsageError


class Launchd:
    """A property list in the person's own LaunchAgents."""

    name = "launchd"
    starts_by = "start it with `lembasd install`"

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._path = Path.home() / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"

    def files(self) -> dict[Path, str]:
        template = api.template(f"launchd/{LAUNCHD_LABEL}.plist")
        try:
            text = service_files.launchd_agent(
                template, api.program(), str(self._paths.log), api.places()
            )
        except service_files.CannotBeWritten as error:
            raise UsageError(f"{error}; choose another place for it") from None
        return {self._path: text}

    def is_installed(self) -> bool:
        try:
            written = plistlib.loads(self._path.read_bytes())
        except (OSError, plistlib.InvalidFileException, ExpatError):
            return False
        return dict(written.get("EnvironmentVariables", {})) == api.places()

    def is_active(self) -> bool:
        return api.ask("launchctl", "print", f"{self._domain}/{LAUNCHD_LABEL}").returncode == 0

    def install(self) -> list[str]:
        files = self.files()
        if self._path.exists() and not self.is_installed():
            raise UsageError(
                f"{self._path} is there for another installation; "
                "run `lembasd uninstall` there first, or remove it"
            )
        self._paths.make()  # launchd makes no directory for its log
        said = api.write_files(files)
        if self.is_active():
            api.demand("launchctl", "bootout", f"{self._domain}/{LAUNCHD_LABEL}")
        api.demand("launchctl", "bootstrap", self._domain, str(self._path))
        return [*said, "it runs while you are logged in at the screen of this Mac"]

    def lingering(self) -> list[str]:
        return []  # an agent of the graphical session has no other way

    def uninstall(self) -> list[str]:
        if not self.is_installed():
            return []
        if self.is_active():
            api.demand("launchctl", "bootout", f"{self._domain}/{LAUNCHD_LABEL}")
        return api.remove_files({self._path: ""})

    def stop(self) -> None:
        api.demand("launchctl", "bootout", f"{self._domain}/{LAUNCHD_LABEL}")
