"""What puts a person's terminal back as it was, when a program in it has set modes and is left there."""

import re
from typing import Final

from lembasd.pty.core.modes import Modes

_MODE: Final = re.compile(rb"\x1b\[\?(\d+)([hl])")
#: on in a terminal that nobody has changed: lines wrap, the cursor is seen
_ON: Final = frozenset({b"7", b"25"})
_SCREENS: Final = frozenset({b"47", b"1047", b"1049"})
#: ends what was cut off in its middle (a title, say), then colours
_PLAIN: Final = b"\x1b\\\x1b[0m"


def undo(modes: Modes) -> bytes:
    """Sequences for each mode that is not as at the start, the other screen left last."""
    found = _MODE.findall(modes.sequence())
    wrong = [number for number, how in found if (how == b"h") != (number in _ON)]
    wrong.sort(key=lambda number: number in _SCREENS)
    said = [b"\x1b[?%b%b" % (number, b"h" if number in _ON else b"l") for number in wrong]
    keypad = [b"\x1b>"] if b"\x1b=" in modes.sequence() else []
    return b"".join((_PLAIN, *keypad, *said))
