"""Opening a terminal, against `pty.fork` of the same login shell in the same run."""

import asyncio
import os
import pty
import signal
import time
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.install import Install
from benchmarks.measure import Figure, median
from lembasd.device.person import find_person
from lembasd.ipc.client import HubClient
from lembasd.protocol.jsonrpc import Message
from lembasd.pty.shell import shell_environment

#: alternating opens of the two ways
OPENS: Final = 25
_TIMEOUT_S: Final = 20.0


class _Client:
    """A local client that waits for what a terminal says first, and for its end."""

    def __init__(self) -> None:
        self.hub = HubClient(self._message)
        self._said: asyncio.Queue[str] = asyncio.Queue()

    def _message(self, message: Message) -> None:
        self._said.put_nowait(message.method)

    async def connect(self, install: Install) -> None:
        await self.hub.connect(install.paths.socket)
        await self.hub.request("initialize", {"protocolVersion": 1})

    async def open(self, install: Install) -> float:
        """Seconds from the request to the first output; the terminal is closed again, and its end waited for."""
        begun = time.perf_counter()
        opened = self.hub.start("_lembas/terminal/open", {"cwd": str(install.project)})
        await self._until("_lembas/terminal/output")
        took = time.perf_counter() - begun
        terminal = msgspec.json.decode(await opened)["terminalId"]
        self.hub.notify("_lembas/terminal/close", {"terminalId": terminal})
        await self._until("_lembas/terminal/exit")
        return took

    async def _until(self, method: str) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            while await self._said.get() != method:
                pass


def _fork(install: Install) -> float:
    """Seconds from `pty.fork` of the same shell to its first output; it is ended again."""
    person = find_person(install.environment)
    variables = shell_environment(install.environment, person, install.project)
    begun = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(install.project)
        os.execve(person.shell.path, [person.shell.argv0], variables)  # noqa: S606 - a shell
    os.read(master, 65536)
    took = time.perf_counter() - begun
    os.kill(pid, signal.SIGKILL)
    os.close(master)
    os.waitpid(pid, 0)
    return took


async def measure() -> list[Figure]:
    """How much longer a terminal of the hub's takes to its first output, marks around prompts included."""
    async with Install() as install:
        install.environment["HOME"] = str(_home(install))
        await install.start_hub()
        client = _Client()
        await client.connect(install)
        await client.open(install)  # what the first one has to look up
        ours, theirs = [], []
        for _ in range(OPENS):
            ours.append(await client.open(install) * 1000)
            theirs.append(await asyncio.to_thread(_fork, install) * 1000)
        client.hub.close()
    basis = f"{median(ours):.1f} ms against {median(theirs):.1f} ms, medians of {OPENS}"
    more = median(ours) - median(theirs)
    return [
        Figure("open to first output, more than pty.fork", more, "ms", 15, 5, False, basis),
    ]


def _home(install: Install) -> Path:
    """A home as a system makes one: a profile that reads a .bashrc."""
    home = install.base / "home"
    home.mkdir()
    (home / ".profile").write_text("if [ -f ~/.bashrc ]; then . ~/.bashrc; fi\n")
    (home / ".bashrc").write_text("alias ll='ls -l'\n")
    (home / ".zshrc").write_text("alias ll='ls -l'\n")
    return home
