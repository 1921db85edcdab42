"""Chats that were deleted here and of which their device has not heard yet (link.md, _lembas/session/delete). Pure.

A deletion waits for the device's next link until it is answered; so many refusals end it as well.
"""

from typing import Final

import msgspec
from msgspec import Struct

#: refusals of one deletion; after the last one the device keeps its session
MAX_REFUSALS: Final = 5
#: deletions that wait; the oldest is given up for a new one
MAX_WAITING: Final = 1000


class Deletion(Struct):
    """One session that its device is to delete."""

    session_id: str
    device: str
    refusals: int = 0


class Deletions:
    """All that wait, oldest first."""

    def __init__(self, waiting: list[Deletion] | None = None) -> None:
        self._waiting = {one.session_id: one for one in waiting or []}

    def waits(self, session_id: str) -> bool:
        """Whether the session is to be deleted: nothing makes it a chat again."""
        return session_id in self._waiting

    def of(self, device: str) -> list[Deletion]:
        return [one for one in self._waiting.values() if one.device == device]

    def add(self, session_id: str, device: str) -> Deletion:
        if len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return self._waiting.setdefault(session_id, Deletion(session_id, device))

    def done(self, session_id: str) -> None:
        """The device has answered, or has said by itself that it is deleted."""
        self._waiting.pop(session_id, None)

    def refused(self, deletion: Deletion) -> bool:
        """The device refused once more; True when that was the last time."""
        deletion.refusals += 1
        if deletion.refusals < MAX_REFUSALS:
            return False
        self.done(deletion.session_id)
        return True

    def encode(self) -> bytes:
        return msgspec.json.encode(list(self._waiting.values()))


def decode(text: bytes) -> Deletions:
    """Raises msgspec.MsgspecError for what was not written by `Deletions.encode`."""
    return Deletions(msgspec.json.decode(text, type=list[Deletion]))
