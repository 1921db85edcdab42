"""Waiting for named milestones that real processes reach (lembasd/device/milestones.py)."""

import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from lembasd.device.milestones import VARIABLE


class Milestones:
    """Receives milestones. Give `environment` to the processes; `wait` blocks until one matches."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind(str(path))
        self.environment = {VARIABLE: str(path)}
        self.seen: list[dict[str, Any]] = []

    def wait(self, name: str, timeout_s: float = 15.0, **fields: Any) -> dict[str, Any]:
        """The first milestone, seen already or to come, with this name and these fields; it is then used up."""

        def matches(one: dict[str, Any]) -> bool:
            return one["name"] == name and all(one.get(key) == fields[key] for key in fields)

        for index, one in enumerate(self.seen):
            if matches(one):
                return self.seen.pop(index)
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                one = msgspec.json.decode(self._socket.recv(65536), type=dict[str, Any])
            except TimeoutError:
                break
            if matches(one):
                return one
            self.seen.append(one)
        names = [one["name"] for one in self.seen]
        raise AssertionError(f"{name} {fields} was not reached in {timeout_s} s; seen: {names}")

    def close(self) -> None:
        self._socket.close()
