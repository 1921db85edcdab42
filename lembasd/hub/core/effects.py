"""What the router wants done. The runner performs them in order and holds no policy."""

from msgspec import Struct

from lembasd.protocol.control import Extensions
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.spawn import SpawnRole


class ToClient(Struct, frozen=True):
    """Queue a finished message for a client."""

    client: int
    frame: Envelope


class ToProcess(Struct, frozen=True):
    """Send a frame to the connected process of a session, a terminal or `UTILITY`."""

    channel: str
    frame: Envelope


class CatchUp(Struct, frozen=True):
    """Have the client sent what came after this number of the session, and meanwhile nothing that is said to everybody."""

    client: int
    session: str
    epoch: int
    seq: int


class Start(Struct, frozen=True):
    """Start a process; the runner gives it its spawn number."""

    role: SpawnRole
    channel: str
    new: bool = False
    link: bool = False
    #: of a worker: for what the session's last one was ended by the hub
    ended_for: str = ""


class Kill(Struct, frozen=True):
    """Kill the process that was started for this channel: it did not say hello in time."""

    channel: str


class EndProcess(Struct, frozen=True):
    """Kill the connected worker of this session, for what `why` says."""

    channel: str
    why: str


class Probe(Struct, frozen=True):
    """Find out how a session's store stands; answered by `inputs.Probed`."""

    session: str


class SetTimer(Struct, frozen=True):
    """One timer a key; setting it again moves it. Answered by `inputs.TimerFired`."""

    key: str
    at: float


class CancelTimer(Struct, frozen=True):
    key: str


class Initialize(Struct, frozen=True):
    """Answer `initialize`; its id is JSON text. `extensions`: what the client asked for."""

    client: int
    id: bytes
    extensions: Extensions = Extensions()


class SayDeleted(Struct, frozen=True):
    """Tell the instance, a client, of every session that was deleted here, and forget them."""

    client: int


class Restart(Struct, frozen=True):
    """A client is about to be given a snapshot of the session, or what it missed: nothing older follows that."""

    client: int
    session: str


class GiveStatus(Struct, frozen=True):
    """Answer `_hub/status`."""

    client: int
    id: bytes


class StopHub(Struct, frozen=True):
    """Answer `_hub/stop` and stop."""

    client: int
    id: bytes


class ReloadHub(Struct, frozen=True):
    """Have the installed version take over; `_hub/reload` is answered when it cannot."""

    client: int
    id: bytes


class SessionGone(Struct, frozen=True):
    """A session's worker can resend nothing any more: clients that lag behind it are told of the gap."""

    session: str


class CardSettled(Struct, frozen=True):
    """Tell a client that a card is settled; `frame` is the finished message."""

    client: int
    card: str
    frame: Envelope


class Adopted(Struct, frozen=True):
    """A worker that this hub did not start has joined."""

    session: str


class Looping(Struct, frozen=True):
    """The process of a session, or `UTILITY`, ends again and again (said once), or `loops` false: does not any more."""

    channel: str
    loops: bool


Effect = (
    ToClient
    | ToProcess
    | CatchUp
    | Start
    | Kill
    | EndProcess
    | Probe
    | SetTimer
    | CancelTimer
    | Initialize
    | SayDeleted
    | Restart
    | GiveStatus
    | StopHub
    | ReloadHub
    | SessionGone
    | CardSettled
    | Adopted
    | Looping
)
