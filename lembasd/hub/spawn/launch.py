"""Exec'ing zygotes and spares."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from lembasd.device.damaged import clear_the_way
from lembasd.device.paths import Paths
from lembasd.hub.spawn.api import Kind
from lembasd.protocol.limits import MIB

#: where the standard error of zygotes and their children goes: traces of crashes, nothing else
CRASH_LOG: Final = "crash.log"
#: over it, it is kept as `crash.log.1` when the next helper starts; what was kept before is dropped
MAX_CRASH_LOG_BYTES: Final = MIB

#: the command of a helper: (kind, the control socket's descriptor, whether it is a spare)
Command = Callable[[Kind, int, bool], list[str]]


def helper_command(kind: Kind, handle: int, spare: bool) -> list[str]:
    """`-I`: nothing of the person's environment or directory changes what is imported."""
    command = [sys.executable, "-I", "-m", "lembasd.zygote"]
    command += ["--fd", str(handle), "--kind", kind]
    return [*command, "--spare"] if spare else command


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Launched:
    """A helper that was exec'd. `control` is our end of its control socket."""

    def __init__(
        self,
        kind: Kind,
        command: list[str],
        process: "subprocess.Popen[bytes]",
        control: socket.socket,
    ) -> None:
        self.kind = kind
        self.command = command
        self.process = process
        self.control = control

    @property
    def pid(self) -> int:
        return self.process.pid


def launch(paths: Paths, command: Command, kind: Kind, *, spare: bool) -> Launched:
    """Exec a helper in a session of its own, with nothing of ours open but its control socket. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        words = command(kind, theirs.fileno(), spare)
        try:
            path = paths.log / CRASH_LOG
            clear_the_way(path)
            if path.exists() and path.stat().st_size > MAX_CRASH_LOG_BYTES:
                path.replace(path.with_name(f"{CRASH_LOG}.1"))
            with open(path, "ab", opener=_private) as log:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)
    return Launched(kind, words, process, ours)
