"""Terminals of a chaos run: what is typed is written outside by their shells, and a shell lives as long as its terminal."""

import asyncio
import base64
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from lembasd.ipc.connect import NoHub
from tests.support.chaos.work import WHOLE_S, Work
from tests.support.daemon import gone

#: before a line that has left no trace is typed again
TYPED_S: Final = 2.0


class Terminals:
    """Opened by a local client, so that they outlive it and its hub."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._outside = work.install.base / "typed"
        #: the shell of each, and its pty process
        self.shells: dict[str, int] = {}
        self.processes: dict[str, int] = {}
        self._number = 0

    async def open(self) -> None:
        client = await self._work.local()
        made = await client.ask(
            "_lembas/terminal/open", {"cwd": str(self._work.install.project)}, WHOLE_S
        )
        terminal = made["terminalId"]
        (one,) = [one for one in await self._all() if one["terminal_id"] == terminal]
        self.shells[terminal] = one["shell_pid"]
        self.processes[terminal] = one["pid"]

    async def killed(self, terminal: str) -> None:
        """Its pty process was killed: the shell is gone as well. Another one takes its place."""
        await gone(self.processes.pop(terminal))
        await gone(self.shells.pop(terminal))
        await self._work.whole()
        await self.open()

    async def check(self) -> None:
        """Every terminal is there with the shell that it began with, and takes what is typed."""
        async with asyncio.timeout(WHOLE_S):
            while {one["terminal_id"] for one in await self._all()} != set(self.shells):  # noqa: ASYNC110 - the hub tells nobody
                await asyncio.sleep(0.05)
        for terminal, shell in self.shells.items():
            assert psutil.Process(shell).is_running()
            await self._type(terminal)

    async def close(self) -> None:
        """Close them all, and wait for their shells' ends."""
        client = await self._work.local()
        for terminal in self.shells:
            client.hub.notify("_lembas/terminal/close", {"terminalId": terminal})
        for shell in self.shells.values():
            await gone(shell)

    def written(self) -> dict[str, int]:
        """How often each line that was typed stands outside."""
        return Counter(self._outside.read_text().split()) if self._outside.exists() else {}

    async def _type(self, terminal: str) -> None:
        """Until it has left its trace: what is on its way to a hub that dies may be lost, and only that."""
        while True:
            self._number += 1
            line = f"typed-{self._number}"
            data = base64.b64encode(f" echo {line} >> {self._outside}\n".encode()).decode()
            with suppress(NoHub, TimeoutError):
                client = await self._work.local()
                await client.ask("_lembas/terminal/attach", {"terminalId": terminal})
                client.hub.notify("_lembas/terminal/input", {"terminalId": terminal, "data": data})
                async with asyncio.timeout(TYPED_S):
                    while line not in _text(self._outside):  # noqa: ASYNC110 - a shell writes it
                        await asyncio.sleep(0.02)
                    return

    async def _all(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._work.status())["terminals"]
        return found


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
