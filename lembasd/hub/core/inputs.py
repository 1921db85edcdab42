"""What happens to the router. Everything random or looked up comes in here as a value."""

from msgspec import Struct

from lembasd.protocol.control import SessionState, Settings, TerminalState
from lembasd.protocol.hello import SessionHello, TerminalHello
from lembasd.protocol.jsonrpc import Message


class ClientJoined(Struct, frozen=True):
    """A client's connection is up. `local`: on the hub's socket, not the link. `agents`: a session's tools started it."""

    client: int
    local: bool
    agents: bool = False


class ClientSaid(Struct, frozen=True):
    """A message of a client. `fresh` is an unused id for the session or terminal that it may open."""

    client: int
    message: Message
    fresh: str = ""


class ClientLeft(Struct, frozen=True):
    client: int


class WorkerJoined(Struct, frozen=True):
    """A worker's hello was accepted. `pid` is the kernel's word for it."""

    hello: SessionHello
    pid: int


class UtilityJoined(Struct, frozen=True):
    pid: int


class TerminalJoined(Struct, frozen=True):
    hello: TerminalHello
    pid: int


class Answered(Struct, frozen=True):
    """A process answers request `request`; `payload` is the finished answer."""

    request: int
    client: int
    payload: bytes
    failed: bool


class SessionSaid(Struct, frozen=True):
    session: str
    state: SessionState


class TerminalSaid(Struct, frozen=True):
    terminal: str
    state: TerminalState


class CardWaits(Struct, frozen=True):
    """A worker is about to ask its clients for a permission."""

    session: str
    card: str


class CardShown(Struct, frozen=True):
    """The request of a card goes to this client."""

    session: str
    card: str
    client: int


class CardDecided(Struct, frozen=True):
    """A card is settled; `client` answered it (0: none did), `payload` tells the others."""

    session: str
    card: str
    client: int
    payload: bytes


class ClientOutdated(Struct, frozen=True):
    """A client has said to a session's worker that it knows no question or plan."""

    session: str
    client: int


class MemoryMeasured(Struct, frozen=True):
    """What a session's worker has resident in memory."""

    session: str
    rss_bytes: int


class Answering(Struct, frozen=True):
    """A connected process does not answer (it may be stopped, or starved), or does again."""

    channel: str
    answers: bool


class LeavingSaid(Struct, frozen=True):
    """An idle process asks whether it may end. `superseded`: so that the hub's own version opens its session."""

    channel: str
    superseded: bool = False


class NeedSaid(Struct, frozen=True):
    """A process asks for the settings as they are now."""

    channel: str


class ConnectionLost(Struct, frozen=True):
    """A process' connection is gone; the process may live."""

    channel: str


class ProcessEnded(Struct, frozen=True):
    """A process is gone. `code` is its exit code (negative: the signal), None when nobody could learn it."""

    channel: str
    code: int | None


class StartFailed(Struct, frozen=True):
    """A process could not be started."""

    channel: str
    reason: str


class Probed(Struct, frozen=True):
    """How a session's store stands. `held`: a process holds its lock."""

    session: str
    exists: bool
    held: bool


class SettingsChanged(Struct, frozen=True):
    settings: Settings


class TidyDue(Struct, frozen=True):
    """It may be time to remove what is kept no longer; the utility worker knows."""


class DeletesKept(Struct, frozen=True):
    """Sessions were deleted here by another process: the instance is to hear of them."""


class StopAsked(Struct, frozen=True):
    """Everything is to end; `reason` is said to whoever waits."""

    reason: str


class TimerFired(Struct, frozen=True):
    key: str


ClientInput = ClientJoined | ClientSaid | ClientLeft
ProcessInput = (
    Answered
    | SessionSaid
    | TerminalSaid
    | CardWaits
    | CardShown
    | CardDecided
    | ClientOutdated
    | LeavingSaid
    | Answering
    | MemoryMeasured
    | NeedSaid
)
LifeInput = (
    WorkerJoined
    | UtilityJoined
    | TerminalJoined
    | ConnectionLost
    | ProcessEnded
    | StartFailed
    | Probed
    | TimerFired
)
Input = ClientInput | ProcessInput | LifeInput | SettingsChanged | TidyDue | DeletesKept | StopAsked
