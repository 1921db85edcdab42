"""One file of an instance's data: read at its start, written in the background."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from lembasd.device import private_file
from lembasd.protocol.errors import ConfigError

T = TypeVar("T")


def read(file: Path | None, decode: Callable[[bytes], T], otherwise: T) -> T:
    """What the file holds, `otherwise` without one. Raises ConfigError for a file that cannot be used."""
    text = private_file.read(file) if file is not None else None
    if text is None:
        return otherwise
    try:
        return decode(text)
    except msgspec.MsgspecError as error:
        raise ConfigError(str(file), "is damaged; remove it and start again") from error


class StateFile:
    """Writes whole states, the last one last; nothing without a file. `encode` gives the state as it is then."""

    def __init__(self, file: Path | None, encode: Callable[[], bytes]) -> None:
        self._file = file
        self._encode = encode
        self._dirty = False
        self._writing: asyncio.Task[None] | None = None
        #: why what was written last is not on disk; None: it is
        self.problem: OSError | None = None

    def changed(self) -> None:
        """What the state is now will be on disk soon."""
        self._dirty = True
        if self._file is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(self._file))

    async def _write(self, file: Path) -> None:
        while self._dirty:
            self._dirty = False
            try:
                await asyncio.to_thread(private_file.write, file, self._encode())
            except OSError as problem:
                self.problem = problem
                return  # a full disk: the next change writes all of it
            self.problem = None

    async def saved(self) -> None:
        """Wait until what was said to be `changed` is on disk, or cannot be written."""
        if self._writing is not None:
            await asyncio.shield(self._writing)
