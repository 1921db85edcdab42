"""The modes that a program has set in its terminal: whoever begins in the middle of the output is put into them first.

Without them a full-screen program that was started long ago would be drawn over the scrollback, and a mouse or a paste
would not reach it as it asked.
"""

import re
from typing import Final

#: DECSET and DECRST, the keypad's, the scroll region's absence by a reset
_CHANGE: Final = re.compile(rb"\x1b(?:\[\?([0-9;]{1,64})([hl])|([=>c])|\[!p)")
#: of a sequence whose end is in the next piece
MAX_HEAD_BYTES: Final = 72
_HEAD: Final = re.compile(rb"\x1b(?:\[[?!]?[0-9;]{0,64})?\Z")
#: modes that are told apart; more is no program's, and costs the ones that were set longest ago
MAX_MODES: Final = 64
#: a synchronized update is over in a moment, and what a terminal reports of itself was for the one that was asked
_PASSING: Final = frozenset({2026, 2048})
#: the other screen, with what it does to the cursor: first, for what follows is drawn there
_SCREENS: Final = (47, 1047, 1049)


class Modes:
    """What was set up to here. Feed it the output, in pieces however cut."""

    def __init__(self) -> None:
        self._set: dict[int, bytes] = {}
        self._keypad = b""
        self._head = b""

    def feed(self, data: bytes) -> None:
        """Take in a piece of output."""
        if self._head:
            data = self._head + data
        self._head = b""
        if b"\x1b" not in data:
            return
        for change in _CHANGE.finditer(data):
            self._change(change)
        last = data[-MAX_HEAD_BYTES:]
        head = _HEAD.search(last)
        if head is not None:
            self._head = last[head.start() :]

    def _change(self, change: "re.Match[bytes]") -> None:
        numbers, how, short = change.groups()
        if numbers is not None:
            for number in numbers.split(b";"):
                if number:
                    self._note(int(number), how)
        elif short in (b"=", b">"):
            self._keypad = b"\x1b" + short
        else:
            self._set.clear()
            self._keypad = b""

    def _note(self, number: int, how: bytes) -> None:
        """The latest comes last; the oldest is forgotten where there are too many, but never which screen is shown."""
        self._set.pop(number, None)
        if len(self._set) >= MAX_MODES:
            del self._set[next(one for one in self._set if one not in _SCREENS)]
        self._set[number] = how

    def sequence(self) -> bytes:
        """What puts a terminal that was reset into these modes."""
        told = {number: how for number, how in self._set.items() if number not in _PASSING}
        first = [number for number in _SCREENS if number in told]
        rest = [number for number in told if number not in first]
        parts = [b"\x1b[?%d%b" % (number, told[number]) for number in (*first, *rest)]
        return b"".join(parts) + self._keypad

    def copy(self) -> "Modes":
        """The same modes, to go on from by themselves."""
        other = Modes()
        other._set = dict(self._set)
        other._keypad, other._head = self._keypad, self._head
        return other
