"""The marks that a shell puts around its prompts, read from its output."""

import re
from typing import Final

_MARK: Final = re.compile(
    rb"\x1b\](?:133;([A-D](?:;[^\x07\x1b]*)?)|7;([^\x07\x1b]*))(?:\x07|\x1b\\)"
)


def marks(output: bytes) -> list[str]:
    """The OSC 133 marks in order: A, B, C, D;status."""
    return [found[1].decode() for found in _MARK.finditer(output) if found[1] is not None]


def places(output: bytes) -> list[str]:
    """The URLs of OSC 7 in order."""
    return [found[2].decode() for found in _MARK.finditer(output) if found[2] is not None]


def commands(output: bytes) -> list[str]:
    """The marks of commands alone: C, D;status."""
    return [mark for mark in marks(output) if mark[0] in "CD"]


def waits(output: bytes) -> bool:
    """Whether the last thing said is a whole prompt."""
    return marks(output)[-2:] == ["A", "B"]
