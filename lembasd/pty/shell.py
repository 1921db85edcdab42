"""The person's login shell, started on a new pseudo-terminal."""

import fcntl
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device import environment
from lembasd.device.person import Person
from lembasd.protocol.limits import KIB
from lembasd.pty.launch import launch

#: where a login's language is kept, by the systems that have such a file
LOCALE_FILES: Final = (Path("/etc/locale.conf"), Path("/etc/default/locale"))
#: such a file has a few lines
MAX_LOCALE_BYTES: Final = 16 * KIB
#: a screen shows UTF-8; what a person without any language gets
_UTF8: Final = "UTF-8" if sys.platform == "darwin" else "C.UTF-8"
#: what Python gives itself in their place, and so the service
_COERCED: Final = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})


def shell_environment(
    variables: Mapping[str, str],
    person: Person,
    cwd: Path,
    locale_files: Sequence[Path] = LOCALE_FILES,
) -> dict[str, str]:
    """The person's environment as a login finds it, without anything of the service's."""
    own = environment.for_shell(variables)
    if "LANG" not in own and "LC_ALL" not in own and own.get("LC_CTYPE", _UTF8) in _COERCED:
        own.pop("LC_CTYPE", None)
        own |= _system_locale(locale_files) or {"LC_CTYPE": _UTF8}
    return {
        "PATH": os.defpath,
        **own,
        "HOME": person.home,
        "USER": person.name,
        "LOGNAME": person.name,
        "SHELL": person.shell.path,
        "PWD": str(cwd),
    }


def _system_locale(files: Sequence[Path]) -> dict[str, str]:
    """LANG and LC_* of the first of these files that sets any."""
    for path in files:
        try:
            with path.open("rb") as file:
                text = file.read(MAX_LOCALE_BYTES).decode(errors="replace")
        except OSError:
            continue
        pairs = (line.strip().partition("=") for line in text.splitlines())
        found = {
            name: value.strip("\"'")
            for name, _, value in pairs
            if name == "LANG" or name.startswith("LC_")
        }
        if any(found.values()):
            return found
    return {}


def set_size(terminal: int, cols: int, rows: int) -> None:
    """Set the size, and have the kernel tell the foreground group by SIGWINCH.

    It tells nobody of a size that is there already, and who attaches again needs a fresh screen: so the size in pixels,
    which we do not know, is another for a moment. A signal of ours would not reach what runs as another user.
    """
    for pixels in (1, 0):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, pixels))


class Started(Struct, frozen=True):
    """A running shell and the master side of its terminal (non-blocking, close-on-exec)."""

    master: int
    process: "subprocess.Popen[bytes]"
    #: the shell marks its prompts
    integrated: bool


def start_shell(person: Person, cwd: Path, cols: int, rows: int, *, integrate: bool) -> Started:
    """Start the shell in `cwd`, with marks around its prompts if it is to `integrate`. Raises OSError.

    This process is the session's leader and keeps the terminal: were the shell the leader, the kernel would hang the
    terminal up at the shell's end and throw away what was not read yet. The shell makes a job-control group of its own.
    """
    how = launch(person.shell, shell_environment(os.environ, person, cwd), integrate=integrate)
    master, slave = os.openpty()
    try:
        set_size(master, cols, rows)
        _want_utf8(slave)
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        process = subprocess.Popen(
            how.words,
            executable=person.shell.path,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=how.variables,
            close_fds=True,
            restore_signals=True,
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    os.set_blocking(master, False)
    return Started(master, process, how.integrated)


def _want_utf8(slave: int) -> None:
    """Have the line editor of the kernel erase whole characters."""
    iutf8 = getattr(termios, "IUTF8", 0x4000)
    modes = termios.tcgetattr(slave)
    modes[0] |= iutf8
    termios.tcsetattr(slave, termios.TCSANOW, modes)
