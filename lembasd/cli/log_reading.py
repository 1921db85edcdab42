"""Reading the log: its files in order, the coming lines too, and which of them are wanted."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from lembasd.device.log_file import files
from lembasd.device.logging import LEVELS
from lembasd.protocol.errors import EXIT_USAGE, UsageError
from lembasd.protocol.limits import MIB

#: read at once
_CHUNK_BYTES: Final = MIB
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Line(Struct, frozen=True):
    """A line of the log: as it stands, and its fields (none for a line that is no JSON, which is shown as it is)."""

    raw: bytes
    fields: dict[str, Any] | None


class Wanted(Struct, frozen=True):
    """Which lines. `since` is compared with `timestamp`; `session` is the start of a session's or terminal's id."""

    level: str = "debug"
    since: str = ""
    session: str = ""

    def takes(self, line: Line) -> bool:
        fields = line.fields
        if fields is None:
            return not self.session and not self.since
        if LEVELS.get(str(fields.get("level")), max(LEVELS.values())) < LEVELS[self.level]:
            return False
        if str(fields.get("timestamp", "")) < self.since:
            return False
        names = (fields.get(key) for key in ("session_id", "terminal_id", "channel"))
        return not self.session or any(str(name or "").startswith(self.session) for name in names)


def read_since(text: str, now: datetime) -> str:
    """A point in time as the log writes it: `90s`, `10m`, `2h`, `3d` ago, or a date with or without a time.

    A time without a zone is this machine's. Raises UsageError.
    """
    unit = _UNITS.get(text[-1:])
    try:
        if unit is not None and text[:-1].isdecimal():
            moment = now - timedelta(**{unit: int(text[:-1])})
        else:
            moment = datetime.fromisoformat(text)
        written = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time; write 10m, 2h or 3d for how long ago, or 2026-01-31T12:00",
            EXIT_USAGE,
        ) from None
    return f"{written:%Y-%m-%dT%H:%M:%S}.{written.microsecond // 1000:03}Z"


def lines(directory: Path, wait: Callable[[], None] | None = None) -> Iterator[Line]:
    """Every line of the log, the oldest first; with `wait`, which is called when there is no more, what comes as well.

    Files are held by what they are, not by their names, so that no line is missed or told twice when one is renamed.
    """
    opened: dict[tuple[int, int], _File] = {}
    try:
        while True:
            named = _open_new(directory, opened)
            for file in opened.values():
                yield from file.lines()
            for key in opened.keys() - named:  # it has gone, and was read to its end
                opened.pop(key).close()
            if wait is None:
                break
            wait()
        for file in opened.values():
            yield from file.rest()
    finally:
        for file in opened.values():
            file.close()


class _File:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = b""

    def lines(self) -> Iterator[Line]:
        """The whole lines that were not read yet."""
        while data := self._file.read(_CHUNK_BYTES):
            *whole, self._begun = (self._begun + data).split(b"\n")
            yield from map(_parse, whole)

    def rest(self) -> Iterator[Line]:
        """A last line without an end, of a process that died or a disk that was full."""
        if self._begun:
            yield _parse(self._begun)

    def close(self) -> None:
        self._file.close()


def _open_new(directory: Path, opened: dict[tuple[int, int], _File]) -> set[tuple[int, int]]:
    """Open what is not open yet; which files have a name now."""
    named = set()
    for path in files(directory):
        try:
            about = path.stat()
            key = (about.st_dev, about.st_ino)
            if key not in opened:
                file = path.open("rb")
                about = os.fstat(file.fileno())  # it may have been renamed since
                key = (about.st_dev, about.st_ino)
                if key in opened:
                    file.close()
                else:
                    opened[key] = _File(file)
        except FileNotFoundError:  # renamed since it was listed: it is found by its next name
            continue
        named.add(key)
    return named


def _parse(raw: bytes) -> Line:
    try:
        return Line(raw, msgspec.json.decode(raw, type=dict[str, Any]))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Line(raw, None)
