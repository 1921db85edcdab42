"""A journal's lines: records to bytes and back, and which lines of a file can be trusted."""

import io
from typing import Final, get_args

import msgspec
from msgspec import Struct

from lembasd.protocol.limits import MIB
from lembasd.store.records import AnyRecord, Record

#: a longer line is no record of ours (a prompt is at most 40 MiB): it counts as damaged
MAX_LINE_BYTES: Final = 64 * MIB


class _Tagged(Struct, frozen=True):
    type: str = ""


_KNOWN: Final = frozenset(kind.__struct_config__.tag for kind in get_args(AnyRecord))
_tagged: Final = msgspec.json.Decoder(_Tagged)
_record: Final = msgspec.json.Decoder(AnyRecord)
_encoder: Final = msgspec.json.Encoder()


class Damaged(Struct, frozen=True):
    """A line that is no record: where it begins, what is wrong with it, and itself."""

    offset: int
    problem: str
    line: bytes


class Loaded(Struct):
    """A journal as it was read. `whole_bytes`: its length up to the end of the last whole line."""

    records: list[AnyRecord] = []
    damaged: list[Damaged] = []
    whole_bytes: int = 0


def encode(record: Record) -> bytes:
    """The line of one record, its newline included."""
    return _encoder.encode(record) + b"\n"


def decode(line: bytes) -> AnyRecord | None:
    """The record of one line; None for a type that this build does not know. Raises ValueError."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError("the line is too long")
    try:
        if _tagged.decode(line).type in _KNOWN:
            return _record.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not _tagged.decode(line).type:
        raise ValueError("the line says no type")
    return None


def read(file: io.BufferedIOBase) -> Loaded:
    """Read a journal to its end. What follows the last newline was torn off in the middle of a write: it is dropped."""
    loaded = Loaded()
    for line in file:
        if not line.endswith(b"\n"):
            break
        offset = loaded.whole_bytes
        loaded.whole_bytes += len(line)
        if line == b"\n":
            continue
        try:
            record = decode(line)
        except ValueError as error:
            loaded.damaged.append(Damaged(offset, str(error), line))
        else:
            if record is not None:
                loaded.records.append(record)
    return loaded
