"""The keys that leave a terminal, found in what a person types, however it is split into reads.

Keys that only began the sequence are typed as soon as another key shows it. The first key pressed twice types it once,
and followed by Ctrl-Z it suspends, as a person knows it from ssh's `~`.
"""

from enum import Enum
from typing import Final

DEFAULT_KEYS: Final = "ctrl-],d"
#: more keys than this are a typing mistake
MAX_KEYS: Final = 8
_SUSPEND: Final = 0x1A
_CONTROL: Final = "abcdefghijklmnopqrstuvwxyz[\\]^_"


class Asked(Enum):
    """What a person asks of the command itself."""

    DETACH = "detach"
    SUSPEND = "suspend"


def parse(text: str) -> bytes:
    """The bytes of keys as `ctrl-],d` names them; b"" for "", which are no keys. Raises ValueError with a sentence."""
    names = text.split(",") if text else []
    if len(names) > MAX_KEYS:
        raise ValueError(f"{text!r} has more than {MAX_KEYS} keys; name fewer")
    return bytes(_key(name) for name in names)


def _key(name: str) -> int:
    if len(name) == 1 and "!" <= name <= "~":
        return ord(name)
    lower = name.lower()
    if len(name) == len("ctrl-x") and lower.startswith("ctrl-") and lower[-1] in _CONTROL:
        return ord(lower[-1]) & 0x1F
    raise ValueError(
        f"{name!r} is no key; name each as ctrl-X or as its character, with commas between"
    )


def shown(keys: bytes) -> str:
    """The keys as a person reads them."""
    return " ".join(
        f"Ctrl-{chr(key + 0x60 if key < 27 else key + 0x40)}" if key < 32 else chr(key)
        for key in keys
    )


class DetachKeys:
    """Feed it what is typed. Without keys everything is typed."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        #: keys of the sequence that were typed and are kept back
        self._seen = 0

    def feed(self, data: bytes) -> list[bytes | Asked]:
        """What to type, and what is asked, in order. What is typed after the last key to detach is nobody's."""
        if not self._keys:
            return [data]
        found: list[bytes | Asked] = []
        typed = bytearray()
        for key in data:
            asked = self._take(key, typed)
            if asked is None:
                continue
            if typed:
                found.append(bytes(typed))
                typed.clear()
            found.append(asked)
            if asked is Asked.DETACH:
                return found
        return [*found, bytes(typed)] if typed else found

    def _take(self, key: int, typed: bytearray) -> Asked | None:
        keys, seen = self._keys, self._seen
        if key == keys[seen]:
            self._seen += 1
            if self._seen < len(keys):
                return None
            self._seen = 0
            return Asked.DETACH
        self._seen = 0
        if seen == 1 and key == keys[0]:
            typed.append(key)
            return None
        if seen == 1 and key == _SUSPEND:
            return Asked.SUSPEND
        if seen:
            typed += keys[:seen]
            return self._take(key, typed)
        typed.append(key)
        return None
