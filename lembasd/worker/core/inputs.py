"""What happens to a session."""

from msgspec import Struct

from lembasd.protocol.control import Attached, Mode, SettingKey
from lembasd.protocol.errors import RequestRefused
from lembasd.store.core.ledger import Answer
from lembasd.store.records import Attachment, TurnError
from lembasd.worker.core.blocks import Upload


class Waiter(Struct, frozen=True):
    """A request that is owed an answer: the client, the hub's number of it, its own id as JSON text."""

    client: int
    request: int
    id: bytes


class PromptAsked(Struct, frozen=True):
    """`turn_id` is the client's, or one made for it; `at` Unix seconds."""

    waiter: Waiter
    turn_id: str
    text: str
    at: float
    uploads: list[Upload] = []

    @property
    def upload_bytes(self) -> int:
        return sum(len(one.content) for one in self.uploads)


class Judged(Struct, frozen=True):
    """Whether the device's limits still let the session's directory be used. `refused` None: they do.

    `attachments`: the files that came with the prompt, which are stored now.
    """

    turn_id: str
    refused: RequestRefused | None
    attachments: list[Attachment] = []


class Accepted(Struct, frozen=True):
    """The turn's `accepted` line is on the disk."""

    turn_id: str


class AcceptFailed(Struct, frozen=True):
    """It is not. `written`: it may be, for the line was written and the sync failed."""

    turn_id: str
    problem: str
    written: bool


class TurnFinished(Struct, frozen=True):
    """The engine's turn is over."""

    turn_id: str
    answer: Answer


class EndStored(Struct, frozen=True):
    """The turn's end is on the disk, or (`problem`) could not be put there. `at`: Unix seconds."""

    turn_id: str
    at: float
    problem: str | None = None


class ModeAsked(Struct, frozen=True):
    waiter: Waiter
    mode: Mode


class Wished(Struct, frozen=True):
    """The model wants a setting changed, and whoever is to allow it has."""

    key: SettingKey
    value: str


class ModeCommanded(Struct, frozen=True):
    """The person typed a command that sets the mode."""

    mode: Mode


class CompactAsked(Struct, frozen=True):
    """Have the conversation summed up, between turns."""

    waiter: Waiter


class Compacted(Struct, frozen=True):
    """The summary, or why there is none."""

    summary: str = ""
    error: TurnError | None = None


class CancelAsked(Struct, frozen=True):
    pass


class SteerAsked(Struct, frozen=True):
    """A person says something for the turn that runs. `message_id` "": the client gave it none."""

    waiter: Waiter
    text: str
    message_id: str = ""


class WriteFailed(Struct, frozen=True):
    """A record beside a turn could not be written."""

    problem: str


class ClientAttached(Struct, frozen=True):
    attached: Attached


class ClientDetached(Struct, frozen=True):
    client: int


class HubJoined(Struct, frozen=True):
    pass


class HubLost(Struct, frozen=True):
    """The hub is gone, and with it every client and whoever waited for an answer."""


class SettingsCame(Struct, frozen=True):
    """The device's settings as they are now. Nothing runs before they came once."""

    max_mode: Mode
    idle_s: float


class CardsWait(Struct, frozen=True):
    """How many permission cards wait now."""

    count: int


class LeaveGranted(Struct, frozen=True):
    """The hub sends this worker nothing more."""


class StopAsked(Struct, frozen=True):
    """Cancel what runs and end. `reason` is said to whoever asks for something new."""

    reason: str


class TimerFired(Struct, frozen=True):
    key: str


TurnInput = PromptAsked | Judged | Accepted | AcceptFailed | TurnFinished | EndStored
ClientInput = (
    ModeAsked
    | ModeCommanded
    | Wished
    | CompactAsked
    | Compacted
    | CancelAsked
    | SteerAsked
    | ClientAttached
    | ClientDetached
)
LifeInput = (
    WriteFailed
    | HubJoined
    | HubLost
    | SettingsCame
    | CardsWait
    | LeaveGranted
    | StopAsked
    | TimerFired
)
Input = TurnInput | ClientInput | LifeInput
