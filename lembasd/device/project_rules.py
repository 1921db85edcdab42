"""A project's own permission rules, as they are now: `.agent/config.yaml`, read again when it has changed."""

from pathlib import Path
from typing import Final

from lembasd.device.config import project_rules
from lembasd.protocol.errors import ConfigError
from lembasd.protocol.permission import Rule

#: in a project, beside its commands and skills
FILE: Final = Path(".agent") / "config.yaml"


class ProjectRules:
    """The rules of one project. A broken file keeps its last good rules; `problem` says why."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._stamp: tuple[int, int, int] | None = None
        self._rules: list[Rule] = []
        self.problem: str | None = None

    def current(self) -> list[Rule]:
        """The rules now. Blocks; never raises. Only for a project that is trusted."""
        try:
            about = self._path.stat()
            stamp = about.st_mtime_ns, about.st_size, about.st_ino
        except OSError:
            self._stamp, self._rules, self.problem = None, [], None
            return []
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._rules = project_rules(self._path)
            except ConfigError as error:
                self.problem = str(error)
            else:
                self.problem = None
        return self._rules
