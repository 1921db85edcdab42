"""Sessions that work in one directory at the same time: the clients of each are warned once of the other."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from lembasd.protocol import events, jsonrpc
from lembasd.protocol.control import SessionState

#: characters of the other session's title
_TITLE_CHARS: Final = 60
_WARNING: Final = (
    "another session{what} works in this directory too; each may change what the other has read"
)


class Warned(Struct, frozen=True):
    """What the clients of a session are told: those on this machine, and the others, who may not know of the other one."""

    session: str
    here: bytes
    elsewhere: bytes


class Neighbours:
    """Remembers who was warned of whom, until one of the two has no process any more."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()

    def began(
        self, session: str, state: SessionState, others: Iterable[tuple[str, SessionState]]
    ) -> list[Warned]:
        """A session has begun to work; `others` are those that there are (it may be among them)."""
        out: list[Warned] = []
        for other, its in others:
            pair = (min(session, other), max(session, other))
            near = its.busy and its.root == state.root and state.root
            if other == session or not near or pair in self._warned:
                continue
            self._warned.add(pair)
            out += [_warning(session, other, its.title), _warning(other, session, state.title)]
        return out

    def ended(self, session: str) -> None:
        """The session has no process any more."""
        self._warned = {pair for pair in self._warned if session not in pair}


def _warning(session: str, other: str, title: str) -> Warned:
    name = " ".join(title.split())[:_TITLE_CHARS]
    what = f" ({name}, {other})" if name else f" ({other})"
    return Warned(session, _notice(session, what), _notice(session, ""))


def _notice(session: str, what: str) -> bytes:
    event = events.Notice(level="warning", text=_WARNING.format(what=what))
    return jsonrpc.notification("_lembas/event", {"sessionId": session, "event": event})
