"""Reading files in pieces: from a thread, without holding the interpreter for long."""

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device.held_path import held
from lembasd.engine.native.core.text_code import Code, Decoder, NotText
from lembasd.engine.native.tools.outcome import Unusable, kind_of, why
from lembasd.protocol.limits import MIB

#: a text file larger than this is data, for a command to look into
MAX_TEXT_BYTES: Final = 10 * MIB
#: what is worked on at once: well below a millisecond's work
PIECE_BYTES: Final = 128 * 1024
#: after each piece, so that the loop has its turn: giving up the interpreter alone does not wake whoever waits for it
_REST_S: Final = 0.0001


class TooLarge(Unusable):
    """More than is read at once."""


class Bytes(Struct, frozen=True):
    """A file's content in pieces, what the system said of it before it was read, and the hash of it."""

    pieces: list[bytes]
    about: os.stat_result
    digest: str

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


class TextFile(Struct, frozen=True):
    """A decoded file, in pieces. `text` has the file's own line endings."""

    raw: Bytes
    texts: list[str]
    code: Code

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def content(self) -> bytes:
        return b"".join(self.raw.pieces)

    def encode(self, text: str, name: str) -> bytes:
        """`text` in this file's encoding. Raises Unusable for a character it does not have."""
        try:
            return self.code.encode(text)
        except UnicodeEncodeError as error:
            character, encoding = error.object[error.start], self.code.encoding
            raise Unusable(
                f"{name} is {encoding}, which has no {character!r}; nothing was changed"
            ) from None


def rest() -> None:
    """Let the loop have its turn."""
    time.sleep(_REST_S)


def digest_of(content: bytes) -> str:
    """What `Bytes.digest` is of a content."""
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def opened(path: Path, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file for reading, reached by no link. Raises Unusable."""
    try:
        with held(path.parent) as directory:
            leaf = path.name or "."
            about = os.stat(leaf, dir_fd=directory, follow_symlinks=False)
            # looked at first: opening a device may do something
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
                raise Unusable(f"{name} is {kind_of(about.st_mode)}, not a file")
            # nonblocking: opening a FIFO must not wait for a writer
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(leaf, flags, dir_fd=directory)
    except OSError as error:
        raise Unusable(why(error, name)) from error
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise Unusable(f"{name} is {kind_of(about.st_mode)}, not a file")
        yield handle, about
    finally:
        os.close(handle)


def read_bytes(path: Path, name: str, limit: int) -> Bytes:
    """A regular file's content, at most `limit` bytes. Raises Unusable."""
    hashed = hashlib.sha256()
    pieces: list[bytes] = []
    size = 0
    with opened(path, name) as (handle, about):
        if about.st_size > limit:
            raise TooLarge(f"{name} is too large ({about.st_size:,} bytes, at most {limit:,})")
        try:
            while piece := os.read(handle, PIECE_BYTES):
                hashed.update(piece)
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"{name} is too large (over {limit:,} bytes)")
        except OSError as error:
            raise Unusable(why(error, name)) from error
    return Bytes(pieces, about, hashed.hexdigest()[:16])


def decoded(raw: Bytes, name: str) -> TextFile:
    """Raises Unusable for what is no text."""
    decoder = Decoder()
    try:
        for piece in raw.pieces:
            decoder.feed(piece)
            if len(raw.pieces) > 1:
                rest()
        for _ in decoder.finish():
            rest()
    except NotText as problem:
        size = f" ({raw.size:,} bytes)" if "binary" in str(problem) else ""
        raise Unusable(f"{name} {problem}{size}") from None
    return TextFile(raw, decoder.texts, decoder.code)


def load(path: Path, name: str) -> TextFile:
    """Read and decode a file. Raises Unusable for what is no text file."""
    return decoded(read_bytes(path, name, MAX_TEXT_BYTES), name)
