"""Terminals as the instance holds them: their output, and whether their device is there."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any, Final

from msgspec import Struct

from lembasd.instance.core.terminal_output import MAX_OUTPUT_BYTES, TerminalOutput
from lembasd.protocol.limits import KIB

#: raw output in one event or message of a stream
MAX_CHUNK_BYTES: Final = 64 * KIB
#: terminals kept, ended ones too; the oldest is forgotten
MAX_TERMINALS: Final = 32

__all__ = ["MAX_CHUNK_BYTES", "MAX_OUTPUT_BYTES", "MAX_TERMINALS", "Output", "Terminal"]


class Output(Struct, frozen=True):
    """A stretch of a terminal's output. `end` counts bytes from its start; `lost` came before it and is gone."""

    end: int
    data: bytes
    lost: int = 0


class Terminal:
    """One terminal. `code` is null while it runs, and when it could not be learnt."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.cwd = ""
        self.exited = False
        self.code: int | None = None
        #: its link is gone, and it waits for the device's next one
        self.away = False
        #: how often it was
        self.absences = 0
        self.output = TerminalOutput()
        self._news = asyncio.Event()

    def add(self, data: bytes, offset: int | None = None) -> None:
        self.output.add(data, offset)
        self.wake()

    def ended(self, code: int | None) -> None:
        """The shell ended, or the link that the terminal lived on; the first end counts."""
        if not self.exited:
            self.exited, self.code, self.away = True, code, False
            self.wake()

    def waits(self, *, away: bool) -> None:
        """Its link is gone, or there again."""
        if not self.exited:
            self.absences += away
            self.away = away
            self.wake()

    @property
    def news(self) -> asyncio.Event:
        """Set with the next change."""
        return self._news

    def wake(self) -> None:
        """Tell whoever waits that something has changed."""
        self._news.set()
        self._news = asyncio.Event()

    def shown(self) -> dict[str, Any]:
        """What is kept, as the API shows it."""
        data = base64.b64encode(self.output.kept()).decode()
        return {"data": data, "exited": self.exited, "code": self.code}

    def listed(self, terminal_id: str) -> dict[str, Any]:
        """The terminal in a list."""
        return {
            "terminal_id": terminal_id,
            "device": self.device,
            "cwd": self.cwd,
            "away": self.away,
            "exited": self.exited,
            "code": self.code,
        }

    async def after(self, offset: int) -> AsyncIterator[Output]:
        """Output later than `offset` as it comes, until the terminal has ended. Nobody waits for its reader."""
        output = self.output
        while True:
            start = min(max(offset, output.start), output.total)
            if start == output.total:
                if self.exited:
                    return
                await self._news.wait()
                continue
            data = output.read(start, MAX_CHUNK_BYTES)
            lost, offset = max(0, start - offset), start + len(data)
            yield Output(offset, data, lost)
