"""What a hub says to a zygote or to a prewarmed spare, and what a zygote answers.

Frames are `envelope.Envelope`s with the kinds below; their payload is the struct as JSON.
"""

from typing import Final, Literal

from msgspec import Struct

FORK: Final = "fork"  # hub to zygote; payload: Assignment
FORKED: Final = "forked"  # zygote to hub; payload: Forked
ENDED: Final = "ended"  # zygote to hub; payload: Ended
READY: Final = "ready"  # zygote or spare to hub, payload: Ready; everything is loaded

#: exit code of a worker that found its session's lock held (BSD's EX_TEMPFAIL): the hub says "try again"
EXIT_LOCKED: Final = 75
#: exit code of a worker that could not read its session's journal (BSD's EX_IOERR): the next could not either
EXIT_UNREADABLE: Final = 74
#: exit code of a worker whose session was deleted before it could be opened (BSD's EX_NOINPUT)
EXIT_UNKNOWN: Final = 66
#: exit code of a worker whose session a newer version has worked on (BSD's EX_PROTOCOL)
EXIT_NEWER: Final = 76
#: a process of ours that ends with one of these did not crash
EXITS_MEANT: Final = (0, EXIT_LOCKED, EXIT_UNREADABLE, EXIT_UNKNOWN, EXIT_NEWER)

SpawnRole = Literal["worker", "utility", "pty"]


class Assignment(Struct, frozen=True, omit_defaults=True):
    """One process to be. It holds no secret: those come over the socket after the hello."""

    spawn: int
    role: SpawnRole
    #: the session of a worker, the terminal of a pty, "" for a utility worker
    channel: str = ""
    #: a worker for a session that is to be made by the session/new that follows
    new: bool = False
    #: a terminal of the link: it hangs up when its hub goes
    link: bool = False
    #: of the config as the hub has read it: a child that parsed it anew would cost time and memory for one word
    log_level: str = "info"
    #: of a worker: for what the session's last one was ended by the hub, said of the turn that ran
    ended_for: str = ""


class Ready(Struct, frozen=True, omit_defaults=True):
    """A zygote or spare has everything loaded. `build`: which version; it may be newer than its hub's."""

    build: str = ""


class Forked(Struct, frozen=True, omit_defaults=True):
    """A child runs, or could not be forked (`pid` 0 and `reason`)."""

    spawn: int
    pid: int
    reason: str = ""


class Ended(Struct, frozen=True):
    """A child was reaped. `status` is waitpid's; None when it could not be learnt."""

    pid: int
    status: int | None
