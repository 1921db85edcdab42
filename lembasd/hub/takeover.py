"""One version of the hub leaves its process to another: what stays open over the exec, and how it is found again.

The listening socket and the locks stay open, so that nobody is refused and no second hub can begin; all else is closed by the
exec. What they are and who still runs stands in a file without a name, whose descriptor is told in the environment.
"""

import os
import signal
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

import msgspec

from lembasd.protocol.errors import LembasError
from lembasd.protocol.takeover import Takeover

#: `<pid>:<descriptor>`, for that process alone
VARIABLE: Final = "LEMBASD_TAKEOVER"
#: they wait until the version that takes over can hear them
_HELD: Final = {signal.SIGTERM, signal.SIGINT}


def command() -> list[str]:
    """How this process was started, with the program that is installed now."""
    program = sys.executable or sys.orig_argv[0]
    return [program, *sys.orig_argv[1:]]


def taken(environment: MutableMapping[str, str]) -> Takeover | None:
    """What an earlier version has left in this process, once; None when it was started afresh.

    Raises OSError, LembasError when it cannot be read.
    """
    pid, _, handle = environment.pop(VARIABLE, "").partition(":")
    if pid != str(os.getpid()) or not handle.isdecimal():
        return None
    with os.fdopen(int(handle), "rb") as file:
        file.seek(0)
        try:
            return msgspec.json.decode(file.read(), type=Takeover)
        except msgspec.MsgspecError as error:
            raise LembasError(
                f"what the version before has left cannot be read ({error}); start lembasd again"
            ) from error


def hand_over(takeover: Takeover, directory: Path, words: list[str]) -> None:
    """Execute `words` in this process. Comes back only by raising OSError: then nothing has changed.

    `directory`: where there is room for a few kilobytes without a name.
    """
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(msgspec.json.encode(takeover))
        file.flush()
        stay = (file.fileno(), takeover.listener, takeover.lock, takeover.members)
        environment = {**os.environ, VARIABLE: f"{os.getpid()}:{file.fileno()}"}
        signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        try:
            for handle in stay:
                os.set_inheritable(handle, True)
            os.execve(words[0], words, environment)  # noqa: S606 - the command this process was started by
        finally:
            # reached only where the exec failed
            for handle in stay:
                os.set_inheritable(handle, False)
            hear()


def hear() -> None:
    """Take the signals that came meanwhile; their handlers are there."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
