"""The names below a directory, kept so that each keystroke can look through them all."""

import unicodedata
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

#: names that are kept, directories included; of more, those that were listed last are not found
MAX_NAMES: Final = 1_000_000


class _Group(Struct, frozen=True):
    """Names of one length lie side by side: where they begin, and how many they are."""

    begin: int
    count: int


class FileIndex:
    r"""Names as bytes, /-separated, a directory's with a / at its end; short ones first, then by their bytes.

    `text` has them all, each between two NULs, and `keys` the same in lower case, byte for byte at the same place. A
    million names so take twice their bytes, which objects of their own would take many times over.
    """

    def __init__(self, names: Iterable[bytes]) -> None:
        ordered = sorted(names)
        ordered.sort(key=len)
        self.count = len(ordered)
        self.text = b"\0".join((b"", *ordered, b""))
        self.keys = (
            self.text.lower()
            if self.text.isascii()
            else b"\0".join((b"", *map(folded, ordered), b""))
        )
        self._groups = _groups(ordered)

    @property
    def size_bytes(self) -> int:
        """What it holds in memory."""
        return 2 * len(self.text)

    def name_at(self, begin: int) -> bytes:
        """The name that begins there."""
        return self.text[begin : self.text.index(b"\0", begin)]

    def find(self, name: bytes) -> int | None:
        """Where a name begins; None when it is not there."""
        group, size = self._groups.get(len(name), _NONE), len(name)
        low, high = 0, group.count
        while low < high:
            middle = (low + high) // 2
            begin = group.begin + middle * (size + 1)
            here = self.text[begin : begin + size]
            if here == name:
                return begin
            if here < name:
                low = middle + 1
            else:
                high = middle
        return None


_NONE: Final = _Group(0, 0)


def folded(name: bytes) -> bytes:
    """A name in lower case, of the same length: a letter whose lower case is longer stays as it is."""
    lower = name.decode().lower().encode()
    return lower if len(lower) == len(name) else name.lower()


def spellings(text: str) -> tuple[bytes, ...]:
    """What a text may look like in `keys`: composed, and as macOS writes names, decomposed."""
    forms = (unicodedata.normalize(form, text).lower() for form in ("NFC", "NFD"))
    return tuple(dict.fromkeys(form.encode(errors="replace") for form in forms))


def named(listing: bytes, most: int = MAX_NAMES) -> list[bytes]:
    r"""The files of a listing (`./a/b`, each with a NUL behind it) and the directories they lie in.

    A name that is no UTF-8 is left out: no JSON could give it, and no prompt name it.
    """
    whole = (b"\0" + listing.rpartition(b"\0")[0]).replace(b"\0./", b"\0")[1:]
    files = whole.split(b"\0")[:most] if whole else []
    if not _is_text(whole):
        files = [name for name in files if _is_text(name)]
    return [*files, *_directories(files, most - len(files))]


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _directories(files: list[bytes], most: int) -> list[bytes]:
    found: dict[bytes, None] = {}
    for name in files:
        cut = name.rfind(b"/")
        while cut > 0 and (directory := name[: cut + 1]) not in found:
            found[directory] = None
            cut = name.rfind(b"/", 0, cut)
    return list(found)[: max(0, most)]


def _groups(ordered: list[bytes]) -> dict[int, _Group]:
    groups: dict[int, _Group] = {}
    begin, first = 1, 0
    while first < len(ordered):
        size = len(ordered[first])
        after = _first_longer(ordered, size, first)
        groups[size] = _Group(begin, after - first)
        begin += (after - first) * (size + 1)
        first = after
    return groups


def _first_longer(ordered: list[bytes], size: int, low: int) -> int:
    high = len(ordered)
    while low < high:
        middle = (low + high) // 2
        if len(ordered[middle]) <= size:
            low = middle + 1
        else:
            high = middle
    return low
