"""Text files that keep what they were: encoding, BOM, line endings, mode, final newline."""

import codecs
import difflib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.engine.native.tools.outcome import Unusable, read_bytes, why
from lembasd.protocol.limits import MIB

#: a text file larger than this is data, for a command to look into
MAX_TEXT_BYTES: Final = 10 * MIB
#: lines of a diff; a longer one tells nobody anything
MAX_DIFF_LINES: Final = 2000
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


#: read once, while there is one thread: it can be read only by setting it
_UMASK: Final = _umask()


class TextFile(Struct, frozen=True):
    """A decoded file. `text` has the file's own line endings."""

    text: str
    encoding: str
    bom: bytes
    mode: int

    @property
    def newline(self) -> str:
        """The line ending most of its lines have."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf * 2 > self.text.count("\n") else "\n"

    def encode(self, text: str) -> bytes:
        """`text` in this file's encoding. Raises Unusable for a character it does not have."""
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise Unusable(
                f"the file is {self.encoding}, which has no {character!r}; nothing was changed"
            ) from None


def load(path: Path, name: str) -> TextFile:
    """Read and decode a file. Raises Unusable for what is no text file."""
    content, about = read_bytes(path, name, MAX_TEXT_BYTES)
    mode = stat.S_IMODE(about.st_mode)
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            try:
                return TextFile(content[len(bom) :].decode(encoding), encoding, bom, mode)
            except UnicodeDecodeError:
                raise Unusable(f"{name} is not valid {encoding}") from None
    if b"\0" in content[:8192]:
        raise Unusable(f"{name} is a binary file ({len(content):,} bytes)")
    try:
        return TextFile(content.decode("utf-8"), "utf-8", b"", mode)
    except UnicodeDecodeError:
        # every byte is a character in it, so that what is not changed goes back as it was
        return TextFile(content.decode("latin-1"), "latin-1", b"", mode)


def replace(path: Path, name: str, content: bytes, mode: int | None) -> None:
    """Put `content` in the file's place, whole or not at all. Raises Unusable."""
    temporary = None
    if mode is not None and not os.access(path, os.W_OK):
        raise Unusable(
            f"{name} may not be written by this user; ask the person to change its rights"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".lembas-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode if mode is not None else 0o666 & ~_UMASK)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise Unusable(why(error, name)) from error


def unified(old: str, new: str, name: str) -> str:
    """The diff between two texts."""
    lines = list(
        difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
        )
    )
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"[{len(lines) - MAX_DIFF_LINES} lines left out]"]
    return "\n".join(lines)
