"""An installation of its own, into which builds of lembasd are installed one over the other, as a package manager does.

A build is this tree with some of its lines changed. The interpreter and everything else that is installed are this suite's.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
#: by file below lembasd/: what is replaced there by what
Edits = Mapping[str, tuple[str, str]]

OLD: Final = "0.1.0"
NEW: Final = "0.2.0"
#: a later version that can still talk to this one: it says and is told things that this one does not know
NEWER: Final[dict[str, tuple[str, str]]] = {
    "__init__.py": (f'"{OLD}"', f'"{NEW}"'),
    "protocol/hello.py": ("= (1, 1)", "= (1, 2)"),
    # a frame of an unknown kind to every worker, terminal and utility worker
    "hub/runner.py": (
        "        self.processes[process.channel] = process\n",
        (
            "        self.processes[process.channel] = process\n"
            "        process.peer.send_control(Envelope(kind='novelty', channel=process.channel))\n"
        ),
    ),
    # and one from each worker
    "worker/runner.py": (
        '        reached("worker.connected", session_id=self._id)\n',
        (
            '        reached("worker.connected", session_id=self._id)\n'
            "        self._connection.control(Envelope(kind='novelty', channel=self._id))\n"
        ),
    ),
    # a line of an unknown type before each that is written
    "store/journal.py": (
        "        return lines.encode(replace(record, t=self._clock()))\n",
        (
            '        return b\'{"type":"novelty","t":1.5}\\n\' + '
            "lines.encode(replace(record, t=self._clock()))\n"
        ),
    ),
}
#: the same, whose journals this one cannot read
NEW_FORMAT: Final = {
    **NEWER,
    "store/records.py": ("JOURNAL_FORMAT: Final = 1", "JOURNAL_FORMAT: Final = 2"),
}
#: the same, which does not talk to this one
STRANGER: Final = {**NEWER, "protocol/hello.py": ("= (1, 1)", "= (2, 2)")}


class Environment:
    """One virtual environment below `base`. `python` runs what is installed there."""

    def __init__(self, base: Path) -> None:
        self._base = base
        scripts = base / "bin"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self._packages = base / "lib" / version / "site-packages"
        scripts.mkdir(parents=True)
        self._packages.mkdir(parents=True)
        program = Path(sys.base_prefix) / "bin" / version
        self.program = scripts / "python"
        self.program.symlink_to(program)
        (base / "pyvenv.cfg").write_text(f"home = {program.parent}\n")
        # whatever else is installed, but not this tree: a path in such a file is not looked through for more of them
        (self._packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        ripgrep = Path(sys.executable).parent / "rg"
        if ripgrep.exists():
            shutil.copy2(ripgrep, scripts / "rg")
        self._number = 0

    @property
    def python(self) -> list[str]:
        """-P: the directory that a command runs in is none of packages."""
        return [str(self.program), "-P"]

    def install(self, edits: Edits | None = None) -> None:
        """Install this tree with these edits, over what is there."""
        self._number += 1
        new = self._base / f"new{self._number}"
        shutil.copytree(ROOT / "lembasd", new, copy_function=_link)
        for name in ("systemd", "launchd"):
            shutil.copytree(ROOT / name, new / "service_files" / name)
        for name, (before, after) in (edits or {}).items():
            path = new / name
            text = path.read_text()
            assert text.count(before) == 1, (name, before)
            path.unlink()
            path.write_text(text.replace(before, after))
        self.remove()
        new.rename(self._packages / "lembasd")

    def remove(self) -> None:
        """Take the package away: what runs has to do without."""
        shutil.rmtree(self._packages / "lembasd", ignore_errors=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
