"""Sessions and turns on disk, so that a new start of the instance still collects their answers."""

import asyncio
from pathlib import Path

import msgspec

from lembasd.device import private_file
from lembasd.instance.core.rows import Rows, decode
from lembasd.protocol.errors import ConfigError


class RowsFile:
    """Writes whole states in the background, the last one last; nothing without a file."""

    def __init__(self, file: Path | None) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._file = file
        self._dirty = False
        self._writing: asyncio.Task[None] | None = None
        self.rows = Rows()
        text = private_file.read(file) if file is not None else None
        if text is not None:
            try:
                self.rows = decode(text)
            except msgspec.MsgspecError as error:
                raise ConfigError(str(file), "is damaged; remove it and start again") from error

    def changed(self) -> None:
        """What is in `rows` now will be on disk soon."""
        self._dirty = True
        if self._file is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write(self._file))

    async def _write(self, file: Path) -> None:
        while self._dirty:
            self._dirty = False
            try:
                await asyncio.to_thread(private_file.write, file, self.rows.encode())
            except OSError:
                return  # a full disk: the next change writes all of it

    async def saved(self) -> None:
        """Wait until what was said to be `changed` is on disk, or cannot be written."""
        if self._writing is not None:
            await asyncio.shield(self._writing)
