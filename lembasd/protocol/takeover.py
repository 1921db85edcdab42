"""What a hub leaves to the version that takes over from it in the same process (`lembasd reload`), and what that says first.

Both are read by another build than the one that wrote them: fields are only ever added, each with a default.
"""

from typing import Final, Literal

from msgspec import Struct

#: what a build must be able to take over; raised when an older one could not
TAKEOVER: Final = 1


class Build(Struct, frozen=True, omit_defaults=True):
    """What an installed version says of itself (`lembasd run --check --json`)."""

    version: str
    link_protocol: int
    #: lowest and highest version of the hub socket's protocol
    hub_protocol: tuple[int, int]
    #: the newest journal that it can read, and the one that it writes
    journal_format: int
    #: 0: it knows of no takeover
    takeover: int = 0


class Helper(Struct, frozen=True, omit_defaults=True):
    """A zygote or a spare of an earlier version: it starts nothing any more, and is still to be reaped."""

    pid: int
    kind: Literal["worker", "pty"]
    version: str = ""


class Takeover(Struct, frozen=True, omit_defaults=True):
    """The descriptors that stay open, and the processes that go on.

    `activated`: the socket is a service manager's, who alone removes its file. `persons`: what persons started in their
    terminals may be among this process' children.
    """

    version: str
    listener: int
    lock: int
    members: int
    activated: bool = False
    #: how often this process has been reloaded, this time included
    reloads: int = 1
    helpers: list[Helper] = []
    #: by their pid, the session or terminal of each
    processes: dict[int, str] = {}
    persons: bool = False
