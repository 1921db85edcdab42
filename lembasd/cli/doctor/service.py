"""The service manager, and whether this terminal means the same installation."""

import os
from collections.abc import Iterator
from pathlib import Path

from lembasd.cli.doctor.finding import Finding, fail, ok, warn
from lembasd.cli.service_managers.api import chosen
from lembasd.device.paths import APP, Paths
from lembasd.protocol.errors import UsageError


def look(paths: Paths) -> Iterator[Finding]:
    """Whether it is installed as this build would install it, and lasts."""
    manager = chosen(paths)
    if manager is None:
        return
    try:
        if not manager.is_installed():
            yield ok("service", f"not installed in {manager.name}; `lembasd install` does it")
            return
        old = [
            path
            for path, text in manager.files().items()
            if not path.is_file() or path.read_text(encoding="utf-8") != text
        ]
        if old:
            named = ", ".join(map(str, old))
            yield warn("service", f"{named} is not as this build writes it; run `lembasd install`")
        elif not manager.is_active():
            yield warn("service", f"stopped; {manager.starts_by}")
        else:
            yield ok("service", f"{manager.name} runs it")
        for sentence in manager.lingering():
            yield warn("lingering", sentence)
    except (UsageError, OSError) as error:
        yield fail("service", str(error))
    yield from _another_run(paths)


def _another_run(paths: Paths) -> Iterator[Finding]:
    """A terminal without XDG_RUNTIME_DIR (after `su`, in a timer) looks for the socket elsewhere."""
    there = Path(f"/run/user/{os.getuid()}")
    if paths.run != there / APP and (there / APP / "hub.sock").exists():
        yield warn(
            "socket",
            f"the service listens in {there / APP}, commands here look in {paths.run}; "
            f"set XDG_RUNTIME_DIR={there}",
        )
