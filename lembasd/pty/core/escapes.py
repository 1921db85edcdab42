"""Where a stream of terminal output may be cut: between characters and control sequences, never within one.

Control sequences are those of ECMA-48 as xterm reads them in UTF-8: there, bytes from 0x80 on are characters alone.
"""

import re
from typing import Final

_ESC: Final = 0x1B
#: whole sequences, but for strings
_WHOLE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])", re.DOTALL)
#: what begins a string (DCS, SOS, OSC, PM, APC)
_STRING: Final = re.compile(rb"\x1b[PX\]^_]")
#: what ends one, beside ESC \: BEL ends an OSC alone, CAN and SUB each
_ENDS: Final = re.compile(rb"[\x18\x1a]")
_ENDS_OSC: Final = re.compile(rb"[\x07\x18\x1a]")
#: characters of several bytes in UTF-8: how many, and the bits by which the first is known
_LEADS: Final = ((2, 0xE0, 0xC0), (3, 0xF0, 0xE0), (4, 0xF8, 0xF0))
#: a sequence that is no string and is longer is none that a terminal waits for
MAX_SEQUENCE_BYTES: Final = 256
#: how far before a place a sequence is looked for that is not over there; one that began earlier is not known of
LOOK_BACK_BYTES: Final = 4096


def unfinished(data: bytes) -> int:
    """How many bytes at the end belong to a character or sequence that is not complete. `data` begins with a whole one."""
    last = data.rfind(_ESC)
    if last < 0:
        return _half_character(data)
    tail = data[last:]
    if _STRING.match(tail):
        ends = (_ENDS_OSC if tail[1] == ord("]") else _ENDS).search(tail)
        return len(tail) if ends is None else _half_character(tail[ends.end() :])
    whole = _WHOLE.match(tail)
    if whole is not None:
        return _half_character(tail[whole.end() :])
    if len(tail) <= MAX_SEQUENCE_BYTES and _is_beginning(tail):
        return len(tail)
    # neither whole nor a beginning: broken, and the terminal has gone on
    return _half_character(tail)


def opening(rest: bytes) -> bytes:
    """As much of an unfinished end as tells how it goes on."""
    return rest[:2] if _STRING.match(rest) else rest


def _is_beginning(tail: bytes) -> bool:
    return re.fullmatch(rb"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)", tail) is not None


def _half_character(data: bytes) -> int:
    """Bytes at the end that begin a UTF-8 character and do not end it."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = next((length for length, mask, lead in _LEADS if byte & mask == lead), 1)
        return back if length > back else 0
    return 0
