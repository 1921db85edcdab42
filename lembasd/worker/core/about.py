"""What a session is."""

from msgspec import Struct

from lembasd.protocol import events
from lembasd.protocol.control import Mode


class About(Struct, frozen=True):
    """What stays the same for a session's whole life."""

    session_id: str
    root: str
    model: str
    effort: str

    def event(self, title: str, mode: Mode) -> events.Session:
        """What a client is told when the session is opened for it."""
        return events.Session(
            title=title, root=self.root, model=self.model, mode=mode, effort=self.effort
        )
