"""What the machine has left: when too little of it is worth an alarm, and when that is over."""

from typing import Final, Literal

from msgspec import Struct

from lembasd.protocol.limits import MIB

Kind = Literal["disk", "descriptors", "terminals"]

#: free bytes where sessions are kept under which no turn begins: what runs has room to end in
LOW_DISK_BYTES: Final = 128 * MIB
#: and from which on turns begin again, so that one that writes does not switch it on and off
ENOUGH_DISK_BYTES: Final = 192 * MIB
#: the same of files that the disk can still hold, where that is bounded
LOW_DISK_FILES: Final = 200
ENOUGH_DISK_FILES: Final = 400
#: shares of a bound at which an alarm begins and is over
NEARLY: Final = 0.8
FEW_AGAIN: Final = 0.7


class Disk(Struct, frozen=True):
    """`free_files` None: the disk bounds them by its bytes alone."""

    free_bytes: int
    free_files: int | None = None


class Used(Struct, frozen=True):
    """How many of how many."""

    used: int
    most: int


class Measured(Struct, frozen=True):
    """What there is now; None: that cannot be known."""

    disk: Disk | None = None
    descriptors: Used | None = None
    terminals: Used | None = None


class Began(Struct, frozen=True):
    kind: Kind
    text: str


class Over(Struct, frozen=True):
    kind: Kind


Effect = Began | Over

_WHAT: Final[dict[Kind, str]] = {
    "descriptors": "the hub's descriptors are open: set a higher LimitNOFILE= and restart it, sessions go on",
    "terminals": "the machine's pseudo-terminals are in use: close some terminals",
}


class Budgets:
    """The machine. A measure that cannot be taken changes nothing."""

    def __init__(self) -> None:
        self._begun: set[Kind] = set()

    @property
    def low_disk(self) -> bool:
        """Whether no turn is to begin."""
        return "disk" in self._begun

    def handle(self, what: Measured) -> list[Effect]:
        out: list[Effect] = []
        if what.disk is not None:
            out += self._disk(what.disk)
        out += self._share("descriptors", what.descriptors)
        out += self._share("terminals", what.terminals)
        return out

    def _disk(self, disk: Disk) -> list[Effect]:
        free, files = disk.free_bytes, disk.free_files
        if free < LOW_DISK_BYTES or (files is not None and files < LOW_DISK_FILES):
            left = f"{free // MIB} MiB" if free < LOW_DISK_BYTES else f"for {files} files"
            return self._begin(
                "disk",
                f"hardly any room is left where sessions are kept ({left}): no turn begins until some is freed, "
                "what runs goes on",
            )
        if free >= ENOUGH_DISK_BYTES and (files is None or files >= ENOUGH_DISK_FILES):
            return self._end("disk")
        return []

    def _share(self, kind: Kind, used: Used | None) -> list[Effect]:
        if used is None or used.most <= 0:
            return []
        if used.used >= NEARLY * used.most:
            return self._begin(kind, f"{used.used} of {used.most} of {_WHAT[kind]}")
        if used.used < FEW_AGAIN * used.most:
            return self._end(kind)
        return []

    def _begin(self, kind: Kind, text: str) -> list[Effect]:
        if kind in self._begun:
            return []
        self._begun.add(kind)
        return [Began(kind, text)]

    def _end(self, kind: Kind) -> list[Effect]:
        if kind not in self._begun:
            return []
        self._begun.discard(kind)
        return [Over(kind)]
