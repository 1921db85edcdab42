"""What a session has done by its runner, in order. What takes time is answered by an input."""

from typing import Any

from msgspec import Struct

from lembasd.protocol.context import Context
from lembasd.protocol.control import Mode, SessionState
from lembasd.protocol.events import AnyEvent
from lembasd.protocol.lembas import AnnounceParams
from lembasd.store.core.ledger import Answer
from lembasd.store.records import (
    Attachment,
    ContextSet,
    Given,
    ModeSet,
    SettingSet,
    TitleSet,
    TurnEnded,
    TurnError,
)
from lembasd.worker.core.blocks import Upload
from lembasd.worker.core.inputs import Waiter


class Judge(Struct, frozen=True):
    """Judge the session's directory against the limits as they are now (`bound`), then store the files: Judged."""

    turn_id: str
    bound: bool = True
    uploads: list[Upload] = []


class StoreAccepted(Struct, frozen=True):
    """Record that the turn was taken, and sync: Accepted or AcceptFailed."""

    turn_id: str
    text: str
    attachments: list[Attachment] = []
    local: bool = False


class StartTurn(Struct, frozen=True):
    """Record the start and have the engine run it: TurnFinished."""

    turn_id: str
    text: str
    attachments: list[Attachment] = []
    local: bool = False


class StartCompaction(Struct, frozen=True):
    """Have the engine sum the conversation up; answered by Compacted. `judge`: by the limits first, NotAdmitted."""

    judge: bool = False


class Choose(Struct, frozen=True):
    """Find the model at the instance, and the effort that it offers; answered by Configured. None: as it is."""

    model: str | None
    effort: str | None
    judge: bool = False


class Rewind(Struct, frozen=True):
    """Record that the turn and every later one are taken back, and have the engine forget them: Rewound."""

    turn_id: str
    judge: bool = False


class Remove(Struct, frozen=True):
    """Delete the session's store: Removed. `tell`: the instance is to hear of it."""

    tell: bool


class JudgeShare(Struct, frozen=True):
    """Find out whether the limits let the session be shown to the instance unasked: ShareJudged."""


class JudgeLeft(Struct, frozen=True):
    """Find out whether the limits let the instance go on with the session: LeftJudged."""


class Announce(Struct, frozen=True):
    """Tell a client of the link that a terminal shares the session."""

    client: int
    params: AnnounceParams


class SayLeft(Struct, frozen=True):
    """Tell a client of the link that no terminal shares the session any more."""

    client: int
    available: bool


class TellDeleted(Struct, frozen=True):
    """Tell one client, which is LLeMbas, that the session is deleted."""

    client: int


class CancelTurn(Struct, frozen=True):
    """Have the engine end the running turn soon, and take its cards down."""


class Steer(Struct, frozen=True):
    """Hand what a person says to the running turn, and answer how many messages wait, or why it is not taken.

    `local`: of `engine.api.Engine.steer`.
    """

    waiter: Waiter
    text: str
    message_id: str
    local: bool


class StoreEnd(Struct, frozen=True):
    """Record the end, sync, write the turns file: EndStored."""

    turn_id: str
    answer: Answer


class Write(Struct, frozen=True):
    """Append a record that nobody waits for; WriteFailed when that fails (but for an end: it is owed until there is room)."""

    record: Given | ContextSet | ModeSet | SettingSet | TitleSet | TurnEnded


class UseMode(Struct, frozen=True):
    """Have the engine judge calls under this mode from now on."""

    mode: Mode


class UseModel(Struct, frozen=True):
    """Have the engine ask this model from now on."""

    model: str


class UseContext(Struct, frozen=True):
    """Have the engine tell its model of what the client holds, as it is now."""

    context: Context


class UseEffort(Struct, frozen=True):
    """Have the engine ask the model with this effort from now on."""

    effort: str


class Reply(Struct, frozen=True):
    """Answer a request with a result."""

    waiter: Waiter
    result: Any


class Refuse(Struct, frozen=True):
    """Answer a request with an error."""

    waiter: Waiter
    error: TurnError


class Emit(Struct, frozen=True):
    """Tell every client that it concerns."""

    event: AnyEvent


class EmitTo(Struct, frozen=True):
    """Tell one client, which is LLeMbas."""

    client: int
    event: AnyEvent


class SayState(Struct, frozen=True):
    """Tell the hub how the session stands. `in_turn`: after everything that was said before."""

    state: SessionState
    in_turn: bool = False


class SayLeaving(Struct, frozen=True):
    """Ask the hub whether this idle worker may end: LeaveGranted, or silence. `superseded`: for another version."""

    superseded: bool = False


class SetTimer(Struct, frozen=True):
    """TimerFired(key) at `at`, on the clock of `now`; it takes the place of one with this key."""

    key: str
    at: float


class CancelTimer(Struct, frozen=True):
    key: str


class End(Struct, frozen=True):
    """End the process. `clean` false: something of it did not end in time."""

    clean: bool = True


Effect = (
    Judge
    | StoreAccepted
    | StartTurn
    | StartCompaction
    | Choose
    | Rewind
    | Remove
    | JudgeShare
    | JudgeLeft
    | Announce
    | SayLeft
    | TellDeleted
    | CancelTurn
    | Steer
    | StoreEnd
    | Write
    | UseMode
    | UseModel
    | UseContext
    | UseEffort
    | Reply
    | Refuse
    | Emit
    | EmitTo
    | SayState
    | SayLeaving
    | SetTimer
    | CancelTimer
    | End
)
