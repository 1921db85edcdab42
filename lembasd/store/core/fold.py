"""From a journal's records to what is known of the session: what it is, its turns, what was said."""

from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from lembasd.protocol.context import Context
from lembasd.protocol.control import Mode
from lembasd.protocol.errors import INTERNAL_ERROR
from lembasd.protocol.lembas import AssistantTurn, AttachmentInfo, HistoryTool, UserTurn
from lembasd.store.core.ledger import Ledger, from_record
from lembasd.store.records import (
    AccountPersonalization,
    AnyRecord,
    Assistant,
    Compacted,
    ContextSet,
    Created,
    Given,
    Learned,
    ModeSet,
    Note,
    Opened,
    Prompted,
    Rewound,
    SessionNote,
    SettingSet,
    SteerAsked,
    Steered,
    SystemPrompt,
    TitleSet,
    ToolResult,
    ToolsOffered,
    ToolStarted,
    TurnAccepted,
    TurnEnded,
    TurnError,
    TurnStarted,
)

#: what a turn is answered whose worker died in the middle of it (decisions.md, wire 3)
WORKER_ENDED = TurnError(
    code=INTERNAL_ERROR,
    message="the process that worked on this turn ended; look at what it did, then prompt again",
    data={"reason": "worker_ended"},
)


class SessionView(Struct):
    """What a journal says of its session. `created` is None for a journal whose first line is lost."""

    created: Created | None = None
    epoch: int = 0
    mode: Mode = "manual"
    #: the mode that the person set; a tool may have narrowed it
    widest: Mode = "manual"
    model: str = ""
    effort: str = "default"
    context: Context = Context()
    #: the instance was given the session
    given: bool = False
    title: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    #: the turns that have not started, by id
    waiting: dict[str, TurnAccepted] = {}
    #: what was said for the running turn and not given to its model yet
    unsent: list[str] = []
    #: as `_lembas/session/history` gives it
    history: list[UserTurn | AssistantTurn] = []

    @property
    def root(self) -> str:
        return self.created.root if self.created is not None else ""


class Folding:
    """What the records that were added so far, in their order, say."""

    def __init__(self) -> None:
        self.view = SessionView()
        #: where the tool of each call that has no result stands: its message, and its place there
        self._calls: dict[str, tuple[AssistantTurn, int]] = {}
        #: the turn that each entry of the history belongs to, and the one that began last
        self._owners: list[str] = []
        self._turn_id = ""

    def add(self, record: AnyRecord) -> None:
        match record:
            case (
                Created()
                | Opened()
                | Given()
                | ContextSet()
                | TitleSet()
                | ModeSet()
                | SettingSet()
            ):
                self._set(record)
            case TurnAccepted() | TurnStarted() | TurnEnded():
                self._turn(record)
            case Assistant():
                self._said(record)
            case SteerAsked() | Steered() | Rewound():
                self._amid(record)
            case ToolResult():
                self._result(record)
            case (
                AccountPersonalization()
                | SystemPrompt()
                | ToolsOffered()
                | Learned()
                | Note()
                | SessionNote()
                | Prompted()
                | Compacted()
                | ToolStarted()
            ):
                pass
            case _:
                assert_never(record)

    def _set(
        self,
        record: Created | Opened | Given | ContextSet | TitleSet | ModeSet | SettingSet,
    ) -> None:
        view = self.view
        match record:
            case Created():
                view.created, view.mode, view.widest = record, record.mode, record.mode
                view.model, view.effort, view.given = record.model, record.effort, record.given
            case Opened(epoch=epoch):
                view.epoch = max(view.epoch, epoch)
            case Given(back=back):
                view.given = not back
            case ContextSet(context=context):
                view.context = context
            case TitleSet(title=title):
                view.title = title
            case ModeSet(mode=mode, by_tool=by_tool):
                view.mode = mode
                view.widest = view.widest if by_tool else mode
            case SettingSet(key="effort", value=value):
                view.effort = value
            case SettingSet(key="model", value=value):
                view.model = value
            case SettingSet():
                pass
            case _:
                assert_never(record)

    def _turn(self, record: TurnAccepted | TurnStarted | TurnEnded) -> None:
        view = self.view
        match record:
            case TurnAccepted(turn_id=turn_id):
                if view.ledger.accept(turn_id, record.t):
                    view.waiting[turn_id] = record
            case TurnStarted(turn_id=turn_id):
                if view.ledger.start(turn_id, record.t):
                    self._turn_id = turn_id
                    self._asked(turn_id)
            case TurnEnded(turn_id=turn_id):
                view.unsent.clear()
                view.ledger.end(turn_id, from_record(record), record.t)
                # one that ended before it began: what the person asked is shown all the same
                self._asked(turn_id)
            case _:
                assert_never(record)

    def _amid(self, record: SteerAsked | Steered | Rewound) -> None:
        view = self.view
        match record:
            case SteerAsked(text=text):
                view.unsent.append(text)
            case Steered(texts=texts):
                del view.unsent[: len(texts)]
                for one in texts:
                    self._show(UserTurn(text=one))
            case Rewound(turns=turns):
                self._take_back(set(turns))
            case _:
                assert_never(record)

    def _asked(self, turn_id: str) -> None:
        asked = self.view.waiting.pop(turn_id, None)
        if asked is not None:
            files = [AttachmentInfo(one.name, one.mime, one.size) for one in asked.attachments]
            turn = UserTurn(text=asked.text, turnId=turn_id, attachments=files)
            self._show(turn, turn_id)

    def _show(self, turn: UserTurn | AssistantTurn, owner: str = "") -> None:
        self.view.history.append(turn)
        self._owners.append(owner or self._turn_id)

    def _take_back(self, gone: set[str]) -> None:
        both = zip(self.view.history, self._owners, strict=True)
        left = [(turn, owner) for turn, owner in both if owner not in gone]
        self.view.history = [turn for turn, _ in left]
        self._owners = [owner for _, owner in left]

    def _said(self, record: Assistant) -> None:
        # the calls of a message that was cut off never ran
        calls = [] if record.partial else record.calls
        tools = [HistoryTool(id=call.id, name=call.name, args=call.args or {}) for call in calls]
        turn = AssistantTurn(text=record.text, reasoning=record.reasoning, tools=tools)
        for index, call in enumerate(calls):
            self._calls[call.id] = (turn, index)
        self._show(turn, record.turn_id)

    def _result(self, record: ToolResult) -> None:
        place = self._calls.pop(record.call_id, None)
        if place is not None:
            turn, index = place
            tool = turn.tools[index]
            turn.tools[index] = replace(tool, output=record.output, isError=record.is_error)


def fold(records: Iterable[AnyRecord]) -> SessionView:
    """What the records of one journal, in their order, say."""
    folding = Folding()
    for record in records:
        folding.add(record)
    return folding.view


def interrupted(view: SessionView, ended_for: str = "") -> list[TurnEnded]:
    """The ends to write for turns that their worker's death cut off: they are never run again.

    `ended_for`: what they are told it died of, "" when that is not known.
    """
    error = replace(WORKER_ENDED, message=ended_for) if ended_for else WORKER_ENDED
    return [
        TurnEnded(turn_id=turn_id, error=error, unsent=list(view.unsent))
        for turn_id in view.ledger.running
    ]
