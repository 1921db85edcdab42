"""What a worker and its engine are to each other.

The worker owns the session: its store, its clients, its queue of turns. The engine runs one turn at a time and
says everything through its `Host`.
"""

from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from lembasd.protocol.acp import CommandResult
from lembasd.protocol.context import Context
from lembasd.protocol.control import Account, Mode, SettingKey, Settings
from lembasd.protocol.events import AnyEvent
from lembasd.protocol.interact import Answer, Question, ShownAs
from lembasd.protocol.lembas import AvailableCommand
from lembasd.protocol.mcp import McpServer
from lembasd.store.records import AnyRecord, Attachment, Image, TurnError


class CardRequest(Struct, frozen=True, kw_only=True):
    """A permission the engine needs a person to give.

    `kind` is ACP's tool kind. `always` says what "allow for this session" would cover; None: it is not offered.
    """

    tool_call_id: str
    name: str
    title: str
    kind: str
    args: dict[str, Any]
    reason: str
    purpose: str | None = None
    always: str | None = None
    content: list[Any] | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """How a card ended. `timeout`: nobody answered; `cancelled`: the turn was cancelled first."""

    outcome: Literal["once", "session", "deny", "timeout", "cancelled"]
    #: the corrected command line (with `once`)
    command: str | None = None
    #: what the person said when denying
    feedback: str | None = None


class QuestionRequest(Struct, frozen=True, kw_only=True):
    """Questions for a person, 1 to MAX_QUESTIONS, each of at most MAX_OPTIONS options.

    Labels may be of any length: they are cut for the card, and answers name the whole ones.
    """

    tool_call_id: str
    questions: list[Question]
    why: str | None = None


class QuestionOutcome(Struct, frozen=True, kw_only=True):
    """How the questions ended. `dismissed`: not answered, or not in time; `nobody`: no client is there that takes questions.

    `answers`: of `answered`, one for each question, in order.
    """

    outcome: Literal["answered", "dismissed", "nobody", "cancelled"]
    answers: list[Answer] = []


class PlanRequest(Struct, frozen=True, kw_only=True):
    """A plan for a person to approve. `path`: of its file, relative to the project; `plan`: its structure, None: none is sent."""

    tool_call_id: str
    path: str
    text: str
    plan: dict[str, Any] | None = None


class PlanOutcome(Struct, frozen=True, kw_only=True):
    """How the plan ended: `approve` says in which mode the session may go on, `revise` what is to change."""

    outcome: Literal["approve", "revise", "dismissed", "nobody", "cancelled"]
    mode: Mode | None = None
    feedback: str = ""


class ShowRequest(Struct, frozen=True, kw_only=True):
    """A file for the client's viewer. `path` is relative to the session's directory, `line` counts from 1."""

    tool_call_id: str
    path: str
    kind: ShownAs
    text: str
    language: str | None = None
    line: int | None = None


class ShowOutcome(Struct, frozen=True, kw_only=True):
    """Whether the file is shown. `refused`: `reason` says why not; `nobody`: no client is there that shows files."""

    outcome: Literal["shown", "refused", "nobody", "cancelled"]
    reason: str = ""


class TurnInput(Struct, frozen=True, kw_only=True):
    """A prompt. `local`: a person at this machine sent it, whom the device's limits do not bind."""

    turn_id: str
    text: str
    attachments: list[Attachment] = []
    local: bool = False


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """How a turn ended: a stop reason, or an error. Exactly one is set.

    `unsent`: what was said for the turn and never given to the model. `command`: the prompt was this one.
    """

    stop_reason: Literal["end_turn", "max_turn_requests", "max_tokens", "cancelled"] | None = None
    error: TurnError | None = None
    unsent: list[str] = []
    command: CommandResult | None = None


class ListKeeper(Protocol):
    """Keeps the list of models that an instance gave, for a moment and for every session of this login."""

    async def model_list(self, account: Account) -> bytes | None:
        """The instance's answer (JSON) of the last minute; None when there is none."""

    async def keep_model_list(self, account: Account, answer: bytes) -> None:
        """Keep an answer, which is JSON. What cannot be kept is asked for again."""


class Host(ListKeeper, Protocol):
    """What an engine may ask of its worker."""

    @property
    def session_id(self) -> str: ...

    @property
    def root(self) -> Path:
        """The session's directory: absolute, symlinks resolved when the session was made."""
        ...

    @property
    def settings(self) -> Settings:
        """The device's settings as they are now."""
        ...

    @property
    def protected(self) -> list[Path]:
        """Files and directories no tool may read or write (config, credentials, journals, sockets)."""
        ...

    @property
    def session_dir(self) -> Path:
        """The session's own directory, private to the person, for what its engine keeps. It may not be there yet."""
        ...

    @property
    def attachments_dir(self) -> Path:
        """Where the files that came with prompts are: the tools may use them. It may not be there yet."""
        ...

    @property
    def commands_dir(self) -> Path:
        """Where the person's own commands are. It may not be there."""
        ...

    async def recorded(self) -> list[AnyRecord]:
        """Everything that the session's journal holds now. Raises OSError."""

    @property
    def client_servers(self) -> list[McpServer]:
        """MCP servers of the client that made the session; none after the session was opened again."""
        ...

    @property
    def scope(self) -> str | None:
        """The session's id for calls of the instance's own tools; None while the instance was not given the session."""
        ...

    def emit(self, event: AnyEvent) -> None:
        """Tell every client it concerns. Never waits."""

    def record(self, record: AnyRecord) -> None:
        """Append a journal line: a plain write, done when this returns. Raises OSError (a full disk)."""

    async def sync(self) -> None:
        """Have what was recorded on the disk (fdatasync in a thread). Raises OSError."""

    async def result(self, result_id: str) -> str | None:
        """The whole output of an earlier result (`#0001`), None when there is none. Raises OSError."""

    async def keep_image(self, mime: str, content: bytes) -> Image:
        """Store an image that a result shows. Raises OSError."""

    async def image(self, name: str) -> bytes | None:
        """An image's content; None when it is not there any more."""

    async def server_facts(self, server: str, model: str) -> list[str]:
        """What other sessions were refused by this model's server."""

    async def remember(self, server: str, model: str, facts: list[str]) -> None:
        """Keep what this session was refused, for others. What cannot be kept is lost."""

    async def ask(self, card: CardRequest) -> Decision:
        """Put a card to the person and wait for its one decision (or its time-out)."""

    async def put_questions(self, asked: QuestionRequest) -> QuestionOutcome:
        """Ask the person and wait for the answers. Raises ValueError when there are more than a card holds, or none."""

    async def submit_plan(self, plan: PlanRequest) -> PlanOutcome:
        """Put a plan to the person and wait for what becomes of it. Sets no mode."""

    async def show(self, file: ShowRequest) -> ShowOutcome:
        """Have a file shown by the client that opened the session; one over MAX_SHOWN_BYTES is refused."""

    @property
    def widest_mode(self) -> Mode:
        """The mode that the person set: what the model wishes may be narrower, and never wider."""
        ...

    def command_mode(self, mode: Mode) -> None:
        """The person typed a command that sets the mode."""

    def wish(self, key: SettingKey, value: str) -> None:
        """Have a setting of the session changed as the model wants, after whoever must has allowed it."""

    async def newer_account(self, refused: Account | None) -> Account | None:
        """The login after `refused` got a 401 (None: none was there): a newer one, or None."""


class Engine(Protocol):
    """One session's engine. Made with the session's records so far, so that it knows what was said."""

    async def run_turn(self, turn: TurnInput) -> TurnOutcome:
        """Run one turn to its end. Every tool call has exactly one result when it returns, cancel included.

        The worker records `TurnAccepted` and `TurnStarted` before and `TurnEnded` after; the engine records
        what lies between. A turn that fails is a value, not an exception.
        """

    async def compact(self) -> str | TurnError:
        """Between turns: have the conversation summed up and go on from the summary, which is given. Raises OSError."""

    def steer(self, text: str, message_id: str, *, local: bool = False) -> int | TurnError:
        """Say something for the running turn, taken in at its next step; how many messages wait for that now.

        The turn ends with what it did not take in as `unsent`. `message_id`: the client's, "" for none. `local`: a
        person at this machine says it, so what it names is not bound by the device's limits.
        """

    async def commands(self) -> list[AvailableCommand]:
        """The commands that `/name` in a prompt may name now. Never raises."""

    def cancel(self) -> None:
        """End the running turn, or the summary under way, soon and with `cancelled`. Does nothing when none runs."""

    def set_mode(self, mode: Mode) -> None:
        """Judge calls under `mode` from the next one on."""

    def set_effort(self, effort: str) -> None:
        """Ask the model with this effort from the next request on."""

    def set_model(self, model: str) -> None:
        """Ask this model from the next turn on. Called between turns."""

    def set_context(self, context: Context) -> None:
        """Have the turns to come begin with what the client holds now."""

    def rewind(self, records: list[AnyRecord]) -> None:
        """Go on from what these records, all that the journal holds, say. Called between turns."""

    async def aclose(self) -> None:
        """End every process the engine started and free what it holds."""
