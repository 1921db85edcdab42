"""Text of agents and servers as a terminal may be given it: nothing in it moves a cursor, sets a title or turns text around."""

import re
from typing import Final

#: what a tab is shown as; a screen's cells know no tabs
TAB: Final = "    "
#: ECMA-48: CSI … final byte; OSC, DCS, SOS, PM or APC up to BEL or ST, or to where it breaks off; the short escapes
_SEQUENCE: Final = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-OQ-WYZ\\\\`-~]"
    "|\x9b[0-?]*[ -/]*[@-~]|[\x90\x98\x9d\x9e\x9f][^\x07\x1b\x9c]*[\x07\x9c]?"
)
#: C0 and C1 but newline, halves of characters, and what changes the direction of the text around it
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def clean(text: str) -> str:
    """The text with its lines and without anything that a terminal would obey."""
    if _CONTROL.search(text) is None:
        return text
    text = text.replace("\r\n", "\n").replace("\t", TAB)
    return _CONTROL.sub("", _SEQUENCE.sub("", text))


def typed(text: str) -> str:
    """The same of what is pasted or put where a person types: tabs stay."""
    return "\t".join(clean(one) for one in text.split("\t"))


def clean_line(text: str) -> str:
    """The same as one line."""
    return " ".join(clean(text).split())


def short(text: str, most: int) -> str:
    """At most `most` characters, the last one an ellipsis where more were there."""
    return text if len(text) <= most else text[: most - 1] + "…"
