"""What happens to a session."""

from msgspec import Struct

from lembasd.protocol.context import SaidContext
from lembasd.protocol.control import Attached, Mode, SettingKey, Share
from lembasd.protocol.errors import RequestRefused
from lembasd.store.core.ledger import Answer
from lembasd.store.records import Attachment, TurnError
from lembasd.worker.core.blocks import Upload


class Waiter(Struct, frozen=True):
    """A request that is owed an answer: the client, the hub's number of it, its own id as JSON text.

    `local`: a person on this machine asks, whom the limits do not bind.
    """

    client: int
    request: int
    id: bytes
    local: bool = False


class PromptAsked(Struct, frozen=True):
    """`turn_id` is the client's, or one made for it; `at` Unix seconds; `said` what it told of the session beside."""

    waiter: Waiter
    turn_id: str
    text: str
    at: float
    said: SaidContext = SaidContext()
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
    """The turn's end is on the disk, or (`problem`) could not be put there. `at`: Unix seconds.

    `written`: its line is in the journal, and may be on the disk all the same.
    """

    turn_id: str
    at: float
    problem: str | None = None
    written: bool = False


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


class ConfigureAsked(Struct, frozen=True):
    """Have the session asked with another model or effort, between turns. None: as it is."""

    waiter: Waiter
    model: str | None = None
    effort: str | None = None


class Configured(Struct, frozen=True):
    """The model and the effort that the server has, or why it has not."""

    model: str = ""
    effort: str = ""
    error: TurnError | None = None


class RewindAsked(Struct, frozen=True):
    """Take a turn and every later one back, between turns."""

    waiter: Waiter
    turn_id: str


class Rewound(Struct, frozen=True):
    """How many turns were taken back, or why none was."""

    reverted: int = 0
    error: TurnError | None = None


class NotAdmitted(Struct, frozen=True):
    """The limits do not let the session be used for what is under way between turns."""

    error: TurnError


class TitleAsked(Struct, frozen=True):
    waiter: Waiter
    title: str


class Admitted(Struct, frozen=True):
    """The instance named the session, and the limits let it: from now on it has been given it."""


class DeleteAsked(Struct, frozen=True):
    """Stop what runs and delete the session, by who may."""

    waiter: Waiter


class Removed(Struct, frozen=True):
    """The session's store is gone, or (`problem`) could not be removed."""

    problem: str | None = None


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


class ShareAsked(Struct, frozen=True):
    """A person here wants the session shown to the instance, or no more."""

    waiter: Waiter
    shared: bool


class ShareJudged(Struct, frozen=True):
    """Whether the limits let the session be shown to the instance unasked."""

    allowed: bool


class LeftJudged(Struct, frozen=True):
    """Whether the limits let the instance go on with a session that no terminal shares any more."""

    available: bool


class ClientAttached(Struct, frozen=True):
    attached: Attached


class ClientDetached(Struct, frozen=True):
    client: int


class HubJoined(Struct, frozen=True):
    """`superseded`: it is of another version, whose worker is to have the session next."""

    superseded: bool = False


class HubUnspeakable(Struct, frozen=True):
    """A hub is there that this worker cannot speak with: its own version's worker is to have the session next."""


class Holds(Struct, frozen=True):
    """All that the engine has now and no next process could take up: jobs that run, an agent that cannot load a session."""

    what: frozenset[str]


class HubLost(Struct, frozen=True):
    """The hub is gone, and with it every client and whoever waited for an answer."""


class SettingsCame(Struct, frozen=True):
    """The device's settings as they are now. Nothing runs before they came once."""

    max_mode: Mode
    idle_s: float
    #: the device's name for the instance
    connection: str | None = None
    #: hardly any room is left on the disk: no turn begins
    low_disk: bool = False
    share: Share = "ask"


class CardsWait(Struct, frozen=True):
    """How many permission cards wait now."""

    count: int


class YieldAsked(Struct, frozen=True):
    """Another session needs the room of this one's process, if it has nothing to do."""


class LeaveGranted(Struct, frozen=True):
    """The hub sends this worker nothing more."""


class StopAsked(Struct, frozen=True):
    """Cancel what runs and end. `reason` is said to whoever asks for something new."""

    reason: str


class TimerFired(Struct, frozen=True):
    key: str


TurnInput = PromptAsked | Judged | Accepted | AcceptFailed | TurnFinished | EndStored
#: what needs a session in which no turn runs, and what it came to
BetweenTurns = CompactAsked | ConfigureAsked | RewindAsked
BetweenEnded = Compacted | Configured | Rewound | NotAdmitted
ClientInput = (
    ModeAsked
    | ModeCommanded
    | TitleAsked
    | Wished
    | CancelAsked
    | SteerAsked
    | ClientAttached
    | ClientDetached
)
LifeInput = (
    WriteFailed
    | HubJoined
    | HubUnspeakable
    | Holds
    | HubLost
    | SettingsCame
    | CardsWait
    | Admitted
    | DeleteAsked
    | Removed
    | YieldAsked
    | LeaveGranted
    | StopAsked
    | TimerFired
)
ShareInput = ShareAsked | ShareJudged | LeftJudged
Input = ShareInput | TurnInput | BetweenTurns | BetweenEnded | ClientInput | LifeInput
