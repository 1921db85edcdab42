"""The lines of a session's journal.

A line is one record as JSON, tagged by `type`, with `t` (Unix seconds). Nothing written is ever rewritten: what
takes something back is a line too. A reader skips a type it does not know and keeps the line.
"""

from typing import Any, Final, Literal

from msgspec import Struct

from lembasd.protocol.acp import CommandResult
from lembasd.protocol.context import Context, Personalization
from lembasd.protocol.control import Mode

#: raised when an old build could not read a new journal. It is written by whoever makes or opens one, and a build opens
#: none of a format above its own
JOURNAL_FORMAT: Final = 1
#: of a line that says none, whichever build reads it
_FIRST_FORMAT: Final = 1


class Record(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """The root of all records. `t` is set by the writer."""

    t: float = 0.0


class Created(Record, frozen=True, tag="created"):
    """The first line. `given`: the instance was given this session, so it may name it later."""

    session_id: str
    root: str
    mode: Mode
    model: str
    effort: str = "default"
    format: int = _FIRST_FORMAT
    given: bool = False


class Opened(Record, frozen=True, tag="opened"):
    """A worker took the session up; `epoch` is greater than every earlier one."""

    epoch: int
    build: str
    format: int = _FIRST_FORMAT


class Given(Record, frozen=True, tag="given"):
    """The instance was given the session after it was made, so it may name it later, and delete it.

    `back`: it was taken back.
    """

    back: bool = False


class ContextSet(Record, frozen=True, tag="context"):
    """What the client holds of the session, from here on: all of it."""

    context: Context


class AccountPersonalization(Record, frozen=True, tag="account"):
    """How the account wants to be answered: for this session from here on in place of the device's own."""

    personalization: Personalization


class SystemPrompt(Record, frozen=True, tag="system"):
    """The system prompt, made once for the session and resent byte for byte.

    `instructions`: a hash of each instruction file in it, by its path. `context`: of each piece of the client's, by name.
    """

    text: str
    instructions: dict[str, str] = {}
    context: dict[str, str] = {}


class OfferedTool(Struct, frozen=True):
    """A tool of an MCP server under the name and in the form in which the session's model knows it."""

    name: str
    server: str
    tool: str
    description: str
    parameters: dict[str, Any]
    risk: Literal["read", "execute"]


class ToolsOffered(Record, frozen=True, tag="tools"):
    """The tools of MCP servers, fixed before the session's first request and sent with each of them."""

    tools: list[OfferedTool]


#: the block in which a file came: an image, or a resource with text or with a blob
AttachmentKind = Literal["image", "text", "blob"]


class Attachment(Struct, frozen=True):
    """A file that came with a prompt. `file`: its name in the session's attachment directory."""

    name: str
    mime: str
    size: int
    file: str
    kind: AttachmentKind = "blob"


class TurnAccepted(Record, frozen=True, tag="accepted"):
    """A prompt was taken; synced before its first request. It waits, or starts at once.

    `local`: a person at this machine sent it, whom the limits do not bind.
    """

    turn_id: str
    text: str
    attachments: list[Attachment] = []
    local: bool = False


class TurnStarted(Record, frozen=True, tag="turn"):
    turn_id: str


class Prompted(Record, frozen=True, tag="prompted"):
    """What the turn's prompt was made into for the model: a command's text, the files that it names.

    `task` is the text without the files. `action`: it was a command that the model hears nothing of.
    """

    turn_id: str
    text: str = ""
    task: str = ""
    action: bool = False
    seen: list["Seen"] = []
    #: what each is called, and the image
    images: list[tuple[str, "Image"]] = []


class Call(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool call of an assistant message.

    `id` is ours (the wire's toolCallId, unique in the session); `server_id` is what the model's server gave and
    gets back; `arguments` is the model's text, `args` what it parsed to (None: it did not parse).
    """

    id: str
    server_id: str
    name: str
    arguments: str
    args: dict[str, Any] | None = None
    #: the arguments end in their middle: what was to come is not known
    cut: bool = False
    #: what the server added to the call and to its function, and wants back
    extra: dict[str, Any] = {}
    function_extra: dict[str, Any] = {}


class Assistant(Record, frozen=True, tag="assistant"):
    """A model's message. `partial`: it was cut off, its calls never ran and it is not sent back with calls."""

    turn_id: str
    message_id: str
    model: str
    text: str = ""
    reasoning: str = ""
    #: the field in which the reasoning came, and goes back
    reasoning_key: str = "reasoning_content"
    calls: list[Call] = []
    partial: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class SessionNote(Record, frozen=True, tag="session_note"):
    """What has changed in the session: told with the next user message, or with the prompt of the turn `turn_id`.

    `instructions`: the hashes of the instruction files from now on, where it tells of these; `context` likewise.
    """

    text: str
    turn_id: str = ""
    instructions: dict[str, str] | None = None
    context: dict[str, str] | None = None


class Note(Record, frozen=True, tag="note"):
    """What the harness told the model in the middle of a turn."""

    text: str


class SteerAsked(Record, frozen=True, tag="steer"):
    """What the person said for the running turn, when they said it."""

    text: str
    message_id: str = ""


class Steered(Record, frozen=True, tag="steered"):
    """What the person said in the middle of a turn, at the step where the model was given it.

    `text`: what the model was given, where the texts name files; "": the texts themselves.
    """

    texts: list[str]
    ids: list[str] = []
    text: str = ""
    seen: list["Seen"] = []
    #: what each is called, and the image
    images: list[tuple[str, "Image"]] = []


class ToolStarted(Record, frozen=True, tag="started"):
    """Written before the call's effect: a call that has this line and no result has an unknown outcome."""

    call_id: str


class Seen(Struct, frozen=True):
    """The lines of a file that a result shows: its path as the call gave it, a hash of its content, first and last."""

    path: str
    digest: str
    first: int
    last: int


class Image(Struct, frozen=True):
    """An image that a result shows: its type, and the name of its file among the session's images."""

    mime: str
    name: str


class ToolResult(Record, frozen=True, tag="result"):
    """What the model is told of a call, cancelled and denied ones included. `result_id`: `#0001`."""

    call_id: str
    result_id: str
    output: str
    is_error: bool = False
    #: the whole output where `output` is a part of it
    full: str | None = None
    #: what the harness says of the call, behind its output
    note: str = ""
    seen: Seen | None = None
    images: list[Image] = []
    #: what the person sees beside it
    diff: str | None = None
    #: rule, floor, person, timeout or mode, when the call was denied
    denied_by: str | None = None

    @property
    def told(self) -> str:
        """The output as the model sees it."""
        return f"{self.output.rstrip()}\n{self.note}" if self.note else self.output


class Rewound(Record, frozen=True, tag="rewound"):
    """What was said in these turns is taken back: they leave the conversation and the history, and stay in here.

    `results`: how many results there were, so that no id is given twice.
    """

    turns: list[str]
    results: int = 0


class TurnError(Struct, frozen=True, omit_defaults=True):
    """The JSON-RPC error a turn was answered with."""

    code: int
    message: str
    data: dict[str, Any] | None = None


class TurnEnded(Record, frozen=True, tag="end"):
    """`stop_reason`, or `error` when the turn failed. Synced before the answer goes out."""

    turn_id: str
    stop_reason: str | None = None
    error: TurnError | None = None
    #: what was said for the turn and never given to the model
    unsent: list[str] = []
    #: of a prompt that was a command
    command: CommandResult | None = None


class Compacted(Record, frozen=True, tag="compacted"):
    """The conversation so far is one message from here on. `task`: the prompt of the turn that runs, "" for none.

    `reads`: path, first and last line and content hash of what had been read. Tokens are those of the requests that made it.
    """

    summary: str
    task: str = ""
    reads: list[tuple[str, int, int, str]] = []
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Learned(Record, frozen=True, tag="learned"):
    """What was learnt of the model's server: a fact's word, or the length of its window in tokens."""

    fact: str = ""
    window: int = 0


class ModeSet(Record, frozen=True, tag="mode"):
    """`by_tool`: the settings tool did it, so the mode that the person set stays the widest."""

    mode: Mode
    by_tool: bool = False


class SettingSet(Record, frozen=True, tag="setting"):
    """A setting that has no record of its own: model, effort or verbosity."""

    key: str
    value: str


class TitleSet(Record, frozen=True, tag="title"):
    title: str


AnyRecord = (
    Created
    | Opened
    | Given
    | ContextSet
    | AccountPersonalization
    | SystemPrompt
    | ToolsOffered
    | TurnAccepted
    | TurnStarted
    | Prompted
    | Assistant
    | Note
    | SessionNote
    | SteerAsked
    | Steered
    | ToolStarted
    | ToolResult
    | TurnEnded
    | Compacted
    | Rewound
    | Learned
    | ModeSet
    | SettingSet
    | TitleSet
)
