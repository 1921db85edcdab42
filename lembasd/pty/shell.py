"""The person's login shell, started on a new pseudo-terminal."""

import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from lembasd.device import environment
from lembasd.device.person import Person


def shell_environment(variables: Mapping[str, str], person: Person, cwd: Path) -> dict[str, str]:
    """The person's environment as a login finds it, without anything of the service's."""
    return {
        "PATH": os.defpath,
        **environment.for_shell(variables),
        "HOME": person.home,
        "USER": person.name,
        "LOGNAME": person.name,
        "SHELL": person.shell.path,
        "PWD": str(cwd),
    }


def set_size(terminal: int, cols: int, rows: int) -> None:
    """Set the size; the kernel tells the foreground group by SIGWINCH when it is another."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


class Started(Struct, frozen=True):
    """A running shell and the master side of its terminal (non-blocking, close-on-exec)."""

    master: int
    process: "subprocess.Popen[bytes]"


def start_shell(person: Person, cwd: Path, cols: int, rows: int) -> Started:
    """Start the shell in `cwd`. Raises OSError.

    This process is the session's leader and keeps the terminal: were the shell the leader, the kernel would hang the
    terminal up at the shell's end and throw away what was not read yet. The shell makes a job-control group of its own.
    """
    master, slave = os.openpty()
    try:
        set_size(master, cols, rows)
        _want_utf8(slave)
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        process = subprocess.Popen(
            [person.shell.argv0],
            executable=person.shell.path,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=shell_environment(os.environ, person, cwd),
            close_fds=True,
            restore_signals=True,
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    os.set_blocking(master, False)
    return Started(master, process)


def _want_utf8(slave: int) -> None:
    """Have the line editor of the kernel erase whole characters."""
    iutf8 = getattr(termios, "IUTF8", 0x4000)
    modes = termios.tcgetattr(slave)
    modes[0] |= iutf8
    termios.tcsetattr(slave, termios.TCSANOW, modes)
