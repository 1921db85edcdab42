"""How a file's bytes are a text, told from the bytes, so that what is not changed goes back as it was."""

import codecs
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

#: those that begin with another one come first
_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class NotText(Exception):
    """The bytes are no text; the words follow the file's name."""


class Code(Struct, frozen=True):
    """An encoding. `errors`: what becomes of bytes that are none of it."""

    encoding: str = "utf-8"
    bom: bytes = b""
    errors: str = "strict"

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError for a character that it does not have."""
        return self.bom + text.encode(self.encoding, self.errors)


class Decoder:
    """Bytes to text, piece by piece. `texts` and `code` hold when `finish` has returned."""

    def __init__(self) -> None:
        self.code = Code()
        self.texts: list[str] = []
        self._pieces: list[bytes] = []
        self._decoder: codecs.IncrementalDecoder | None = None
        self._is_utf8 = True

    def feed(self, piece: bytes) -> None:
        """Raises NotText. A first piece of four bytes or more is needed to see a BOM."""
        if self._decoder is None:
            for bom, encoding in _BOMS:
                if piece.startswith(bom):
                    self.code = Code(encoding, bom)
                    piece = piece[len(bom) :]
                    break
            self._decoder = codecs.getincrementaldecoder(self.code.encoding)()
        if not self.code.bom:
            if b"\0" in piece:
                raise NotText("is a binary file")
            self._pieces.append(piece)
        if self._is_utf8:
            self._decode(piece, final=False)

    def finish(self) -> Iterator[None]:
        """All bytes are there: to be run to its end, with a rest wherever it yields. Raises NotText."""
        if self._is_utf8:
            self._decode(b"", final=True)
        if not self._is_utf8:
            yield from self._guess()
        self._pieces.clear()

    def _decode(self, piece: bytes, *, final: bool) -> None:
        if self._decoder is None:
            return
        try:
            self.texts.append(self._decoder.decode(piece, final))
        except UnicodeDecodeError:
            if self.code.bom:
                raise NotText(f"is not valid {self.code.encoding}") from None
            self._is_utf8 = False

    def _guess(self) -> Iterator[None]:
        """UTF-8 with some broken bytes in it, or Latin-1: in both, every byte goes back as it came."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        texts, broken, beyond_ascii = [], 0, 0
        for piece in [*self._pieces, b""]:
            text = decoder.decode(piece, not piece)
            texts.append(text)
            characters = text.encode("utf-8", "ignore").decode()
            broken += len(text) - len(characters)
            beyond_ascii += len(characters) - len(text.encode("ascii", "ignore"))
            yield
        if beyond_ascii >= broken:
            self.texts, self.code = texts, Code(errors="surrogateescape")
        else:
            self.texts, self.code = [], Code("latin-1")
            for piece in self._pieces:
                self.texts.append(piece.decode("latin-1"))
                yield


def displayed(text: str) -> str:
    """The text as it can be sent on: a byte that is no character is shown as \\xNN."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def spelled(name: str) -> str:
    """A file's name on one line."""
    text = displayed(name)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
