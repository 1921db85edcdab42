"""The Agent Client Protocol's messages as the link uses them (link.md, "Standard ACP, as used here").

Field names are the wire's. What `_meta.lembas` may carry beside these is added by the capability that needs it.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import force_setattr

from lembasd.protocol.context import SaidContext
from lembasd.protocol.control import Mode

#: the version of ACP itself
ACP_VERSION = 1

T = TypeVar("T")
if TYPE_CHECKING:
    #: a T that may come as null, which ACP allows where a field may be absent; it is then its default
    OrNull = Annotated[T, None]
else:

    class OrNull:
        def __class_getitem__(cls, item: Any) -> Any:
            return item | None


class Params(Struct, frozen=True, omit_defaults=True):
    """The root of everything that travels in `params` or `result`."""


class Asked(Params, frozen=True):
    """What a client sends, where null stands for a field that is absent."""

    def __post_init__(self) -> None:
        defaults = self.__struct_defaults__
        fields = self.__struct_fields__
        for name, default in zip(fields[len(fields) - len(defaults) :], defaults, strict=True):
            if getattr(self, name) is None and isinstance(default, Struct):
                force_setattr(self, name, default)


# ── initialize ──────────────────────────────────────────────────────────────────────────────────


class ClientLembas(Params, frozen=True):
    """`clientCapabilities._meta.lembas` when it is an object; `true` stands for protocol 1."""

    protocol: int = 1
    show: bool = False
    #: extensions of ours, used only when the client asks for them (docs/protocol.md)
    terminal_flow: bool = False
    terminal_resume: bool = False
    #: of a client on the hub's socket: the output of terminals comes as it is, and so may keys (`envelope.OUTPUT`, `INPUT`)
    terminal_frames: bool = False
    #: messages are numbered; by session, the number of the last one that the client saw of it
    replay: bool | dict[str, str] = False


class ClientMeta(Asked, frozen=True):
    lembas: ClientLembas | bool | None = False


class ClientCapabilities(Asked, frozen=True):
    meta: OrNull[ClientMeta] = field(name="_meta", default=ClientMeta())


class InitializeParams(Asked, frozen=True):
    protocolVersion: int = ACP_VERSION
    clientCapabilities: OrNull[ClientCapabilities] = ClientCapabilities()

    @property
    def lembas(self) -> ClientLembas | None:
        """What the client said it is: None for a client that is not LLeMbas."""
        said = self.clientCapabilities.meta.lembas
        if said is True:
            return ClientLembas(protocol=1)
        return said or None


# ── sessions ────────────────────────────────────────────────────────────────────────────────────


class NewMeta(Params, frozen=True):
    mode: str | None = None
    lembas_model: str | None = None
    model: str | None = None
    effort: str | None = None
    lembas: SaidContext = SaidContext()


class NewSessionParams(Asked, frozen=True):
    cwd: str
    mcpServers: list[Any] = []
    meta: OrNull[NewMeta] = field(name="_meta", default=NewMeta())


class SessionMode(Params, frozen=True):
    id: str
    name: str
    description: str = ""


class SessionModes(Params, frozen=True):
    currentModeId: str
    availableModes: list[SessionMode]


class SessionParams(Params, frozen=True):
    """Of every method that names nothing but a session."""

    sessionId: str


class SetModeParams(Params, frozen=True):
    sessionId: str
    modeId: str


class PromptLembas(SaidContext, frozen=True):
    turnId: str | None = None


class PromptMeta(Asked, frozen=True):
    lembas: OrNull[PromptLembas] = PromptLembas()


class PromptParams(Asked, frozen=True):
    """`prompt` holds ContentBlocks as they came; see `ContentBlock`."""

    sessionId: str
    prompt: list["ContentBlock"]
    meta: OrNull[PromptMeta] = field(name="_meta", default=PromptMeta())


class EmbeddedResource(Params, frozen=True):
    """What a resource block holds: `text`, or `blob` as base64."""

    uri: str | None = None
    mimeType: str | None = None
    text: str | None = None
    blob: str | None = None


class ContentBlock(Params, frozen=True):
    """One block of a prompt: text, resource_link, image or resource, each with its own fields."""

    type: str
    text: str | None = None
    uri: str | None = None
    #: an image as base64
    data: str | None = None
    mimeType: str | None = None
    resource: EmbeddedResource | None = None


StopReason = Literal["end_turn", "max_turn_requests", "max_tokens", "cancelled"]


class Undone(Struct, frozen=True):
    """What `/undo` took back: the prompt as it was typed, and the files that are as they were before it."""

    prompt: str
    files: list[str]


class CommandResult(Struct, frozen=True, omit_defaults=True):
    """What the prompt's result says of the command that it was. `undone` null: there was nothing to undo."""

    command: str
    summary: str | UnsetType = UNSET
    undone: Undone | UnsetType | None = UNSET
    #: the mode now, of `/plan` without a task
    mode: str | UnsetType = UNSET
    #: what a command says that had nothing to do
    message: str | UnsetType = UNSET


class PromptResultLembas(Struct, frozen=True, omit_defaults=True):
    turnId: str
    unsent: list[str] | UnsetType = UNSET
    command: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    undone: Undone | UnsetType | None = UNSET
    mode: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class PromptResultMeta(Params, frozen=True):
    lembas: PromptResultLembas


class PromptResult(Params, frozen=True):
    stopReason: StopReason
    meta: PromptResultMeta = field(name="_meta")


# ── permission requests ─────────────────────────────────────────────────────────────────────────


class ToolCall(Struct, frozen=True):
    """The tool call of a card. `kind` is ACP's: read, edit, delete, move, search, execute, think, fetch, other."""

    toolCallId: str
    title: str
    kind: str
    rawInput: dict[str, Any]
    status: str = field(default="pending")
    content: list[Any] | UnsetType = UNSET


class PermissionOption(Params, frozen=True):
    optionId: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once"]


class CardLembas(Params, frozen=True):
    reason: str
    purpose: str | UnsetType = UNSET
    always: str | UnsetType = UNSET
    patient: bool | UnsetType = UNSET


class CardMeta(Params, frozen=True):
    lembas: CardLembas


class PermissionParams(Struct, frozen=True):
    sessionId: str
    toolCall: ToolCall
    options: list[PermissionOption]
    meta: CardMeta = field(name="_meta")


class PermissionOutcome(Params, frozen=True):
    """`selected` with an optionId (once, session or deny), or `cancelled`."""

    outcome: str
    optionId: str = ""


class AnswerLembas(Params, frozen=True):
    #: the corrected command line (with `once` only)
    command: str | None = None
    #: why it was denied, for the model
    feedback: str | None = None


class AnswerMeta(Asked, frozen=True):
    lembas: OrNull[AnswerLembas] = AnswerLembas()


class PermissionResult(Asked, frozen=True):
    outcome: PermissionOutcome
    meta: OrNull[AnswerMeta] = field(name="_meta", default=AnswerMeta())


MODES: tuple[Mode, ...] = ("plan", "manual", "edit", "auto")


def lowered(mode: Mode, ceiling: Mode) -> Mode:
    """`mode`, or `ceiling` where mode is wider; the order is plan, manual, edit, auto."""
    return MODES[min(MODES.index(mode), MODES.index(ceiling))]


def read_mode(text: str) -> Mode | None:
    """A mode as somebody wrote it (`unrestricted` is read as auto), None for what is none."""
    if text == "unrestricted":
        return "auto"
    return next((mode for mode in MODES if mode == text), None)
