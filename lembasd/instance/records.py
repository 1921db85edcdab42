"""Terminals as the instance holds them; they live as long as the device's link."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any, Final

from msgspec import Struct

from lembasd.protocol.limits import KIB, MIB

#: raw output kept of one terminal: the last of it; a reader further behind is told how much it lost
MAX_OUTPUT_BYTES: Final = 1 * MIB
#: raw output in one event of a stream
MAX_CHUNK_BYTES: Final = 64 * KIB
#: terminals kept, ended ones too; the oldest is forgotten
MAX_TERMINALS: Final = 32


class Output(Struct, frozen=True):
    """A stretch of a terminal's output. `end` counts bytes from its start; `lost` came before it and is gone."""

    end: int
    data: bytes
    lost: int = 0


class Terminal:
    """The end of what one terminal said. `code` is null while it runs, and when it could not be learnt."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.exited = False
        self.code: int | None = None
        self._output = bytearray()
        self._total = 0
        self._news = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._output += data
        self._total += len(data)
        if len(self._output) > MAX_OUTPUT_BYTES:
            del self._output[:-MAX_OUTPUT_BYTES]
        self._wake()

    def ended(self, code: int | None) -> None:
        """The shell ended, or the link that the terminal lived on; the first end counts."""
        if not self.exited:
            self.exited, self.code = True, code
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def shown(self) -> dict[str, Any]:
        """What is kept, as the API shows it."""
        data = base64.b64encode(self._output).decode()
        return {"data": data, "exited": self.exited, "code": self.code}

    async def after(self, offset: int) -> AsyncIterator[Output]:
        """Output later than `offset` as it comes, until the terminal has ended."""
        while True:
            first = self._total - len(self._output)
            start = min(max(offset, first), self._total)
            if start == self._total:
                if self.exited:
                    return
                await self._news.wait()
                continue
            data = bytes(self._output[start - first : start - first + MAX_CHUNK_BYTES])
            lost, offset = max(0, start - offset), start + len(data)
            yield Output(offset, data, lost)
