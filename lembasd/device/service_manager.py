"""What a hub tells the service manager that runs it, and what it was given by it (sd_notify(3), sd_listen_fds(3)).

Without a manager all of it does nothing.
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

#: the first descriptor that a service manager hands over
_FIRST_HANDLE: Final = 3
#: as often as the manager asks to hear something, divided by this: one word that is late ends nothing
_MARGIN: Final = 3


class Notifier:
    """Tells the manager how this process is. A manager that does not listen is no fault."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        #: how often `alive` is to be called, in seconds; None: the manager does not watch
        self.alive_every_s = _watched_s(environment)

    def ready(self, says: str) -> None:
        """This process serves; `says` is a line for the manager's own status."""
        self._tell(f"READY=1\nSTATUS={says}")

    def reloading(self) -> None:
        """Another version is about to take over in this process; it, or this one again, says `ready`."""
        # systemd compares it with its own clock: CLOCK_MONOTONIC
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, text: str) -> None:
        if self._socket is None:
            return
        # an @ stands for the NUL of a name that is in no directory
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError):
            self._socket.sendto(text.encode(), address)


def _watched_s(environment: Mapping[str, str]) -> float | None:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    every = environment.get("WATCHDOG_USEC", "")
    return int(every) / 1_000_000 / _MARGIN if every.isdecimal() and int(every) > 0 else None


def handed_over(environment: Mapping[str, str]) -> list[int]:
    """The descriptors that the manager gave this process; they are closed by an exec from now on."""
    number = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not number.isdecimal():
        return []
    handles = list(range(_FIRST_HANDLE, _FIRST_HANDLE + int(number)))
    for handle in handles:
        os.set_inheritable(handle, False)
    return handles
