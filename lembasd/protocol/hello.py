"""The first frame each way on a local socket."""

from typing import Final, Literal

from msgspec import Struct, field

from lembasd.protocol.control import CardInfo, QueuedTurn

#: lowest and highest version of the local protocol that this build speaks
PROTOCOL: Final[tuple[int, int]] = (1, 1)

Role = Literal["hub", "client", "worker", "utility", "pty"]


class SessionHello(Struct, frozen=True, omit_defaults=True):
    """A worker's account of its session: a new hub's table is made of these and of nothing else."""

    session_id: str
    epoch: int
    seq: int = 0
    #: false until session/new was accepted: there is no store yet
    stored: bool = True
    title: str = ""
    root: str = ""
    mode: str = ""
    model: str = ""
    turn_id: str | None = None
    queued: list[QueuedTurn] = []
    last_turn_id: str | None = None
    cards: list[CardInfo] = []
    #: the link's client was given this session: a new link is attached to it at once
    given: bool = False


class TerminalHello(Struct, frozen=True, omit_defaults=True):
    """A PTY process' account of its terminal. `link` terminals hang up with the hub, others are adopted.

    `resume`: one of the link that waits for the next link, and so for the next hub.
    """

    terminal_id: str
    link: bool = False
    resume: bool = False
    shell_pid: int | None = None
    cwd: str = ""
    cols: int = 80
    rows: int = 24
    shell: str = "other"


class Hello(Struct, frozen=True, omit_defaults=True):
    """Who speaks, in which versions. Sent by both sides within `limits.HELLO_TIMEOUT_S`."""

    role: Role
    build: str
    pid: int
    #: always on the wire: a default that is left out would be the reader's own
    protocol: tuple[int, int] = field(default_factory=lambda: PROTOCOL)
    #: the number the hub gave when it asked for this process; 0 for one that it did not start
    spawn: int = 0
    session: SessionHello | None = None
    terminal: TerminalHello | None = None
    #: hub to client: the number of this connection (`Envelope.client`)
    client: int = 0
    #: a reason that the hub gives for closing right after its hello (a role refused, versions that do not meet)
    refused: str = ""


def common_protocol(ours: tuple[int, int], theirs: tuple[int, int]) -> int | None:
    """The highest version both ranges hold, or None when they do not meet."""
    version = min(ours[1], theirs[1])
    return version if version >= max(ours[0], theirs[0]) else None
