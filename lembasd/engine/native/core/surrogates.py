"""Characters beyond the first 65,536 that a server cut in two: each half a surrogate, in a piece of its own."""

import re
from typing import Any, Final

import msgspec

#: what stands for half a character whose other half never came
LOST: Final = "\ufffd"
_HALF: Final = re.compile("[\ud800-\udfff]")


class Pieces:
    """Feed the pieces of a text, get them with the halves joined. A half at a piece's end waits for the next piece."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        if not text or (not self._held and text.isascii()):
            return text
        text, self._held = self._held + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return whole(text)

    def end(self) -> str:
        """What stands for a half that still waits."""
        held, self._held = self._held, ""
        return LOST if held else ""


def whole(text: str) -> str:
    """The text with its halves joined; those without another half are lost."""
    if _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def can_be_sent(value: Any) -> bool:
    """Whether JSON can be made of it: half a character is none, and nobody knows which it was."""
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError):
        return False
    return True
