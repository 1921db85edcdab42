"""For whom a session was opened: its clients come and go, and come back under other numbers."""

from msgspec.structs import replace

from lembasd.protocol.control import Attached


class Openers:
    """`by_link`: the session was made over the link, whose client is one and the same through all its links."""

    def __init__(self, *, by_link: bool) -> None:
        self._by_link = by_link
        self._locally = False

    def resolved(self, attached: Attached) -> Attached:
        """`attached` with `opened` as it is: the hub knows only of what it opened itself.

        A client of this machine that says what it saw last was here before its hub ended.
        """
        if attached.local:
            opened = attached.opened or (self._locally and attached.since is not None)
            self._locally = self._locally or opened
        else:
            opened = attached.opened or self._by_link
            self._by_link = opened
        return replace(attached, opened=opened)
