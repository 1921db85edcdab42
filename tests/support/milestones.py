"""Waiting for named milestones that real processes reach (lembasd/device/milestones.py)."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from lembasd.device.milestones import VARIABLE

#: what a loaded two-core machine needs for a process to start and say something
DEFAULT_TIMEOUT_S: Final = 20.0


class Milestones:
    """Receives milestones in the running loop. Give `environment` to the processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.environment = {VARIABLE: str(path)}
        self.seen: list[dict[str, Any]] = []
        #: is told of each as it comes
        self.hear: Callable[[dict[str, Any]], None] = lambda _: None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind(str(self._path))
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()

    def _read(self) -> None:
        try:
            while True:
                one = msgspec.json.decode(self._socket.recv(65536))
                self.seen.append(one)
                self.hear(one)
        except BlockingIOError:
            self._news.set()

    def take(self, name: str, **fields: Any) -> dict[str, Any] | None:
        """The first milestone seen with this name and these fields, used up; None when there is none."""
        for index, one in enumerate(self.seen):
            if one["name"] == name and all(one.get(key) == fields[key] for key in fields):
                return self.seen.pop(index)
        return None

    async def wait(
        self, name: str, timeout_s: float = DEFAULT_TIMEOUT_S, **fields: Any
    ) -> dict[str, Any]:
        """The first milestone, seen already or to come, with this name and these fields; it is then used up."""
        try:
            async with asyncio.timeout(timeout_s):
                while (found := self.take(name, **fields)) is None:
                    self._news.clear()
                    await self._news.wait()
                return found
        except TimeoutError:
            names = [one["name"] for one in self.seen]
            raise AssertionError(
                f"{name} {fields} was not reached in {timeout_s} s; seen: {names}"
            ) from None
