"""The `_lembas/*` messages of the link that this build answers (link.md), and what it says of itself."""

from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, field

from lembasd.protocol.acp import Params

#: the link protocol this build speaks, and alone
LINK_PROTOCOL: Final = 3
#: close code of a link whose protocol is refused
CLOSE_REFUSED: Final = 4400
#: what this build does; a capability is listed from the day it works (decisions.md)
CAPABILITIES: Final = (
    "sessions",
    "status",
    "turns",
    "compact",
    "steer",
    "files",
    "commands",
    "attachments",
    "configure",
    "title",
    "delete",
    "rewind",
    "model",
    "context",
    "library",
    "prototypes",
)
#: what there is for the link alone
LINK_CAPABILITY: Final = "directories"
#: listed only while remote.terminal is on
TERMINAL_CAPABILITY: Final = "terminal"
#: `shell` and `integration` in the answer to open; listed with the above
SHELL_CAPABILITY: Final = "shell"
#: extensions of ours, listed for clients that ask for them by these names
TERMINAL_FLOW: Final = "terminal_flow"
TERMINAL_RESUME: Final = "terminal_resume"
TERMINAL_FRAMES: Final = "terminal_frames"
REPLAY: Final = "replay"


class HelloDevice(Struct, frozen=True):
    host: str
    platform: str


class HelloLimits(Struct, frozen=True):
    roots: list[str]
    max_mode: str
    require_trust: bool
    scheduled: bool


class LinkHello(Struct, frozen=True):
    """`_lembas/hello`: sent once when the link opens, before initialize."""

    protocol: int
    version: str
    harness_spec: str
    device: HelloDevice
    limits: HelloLimits


class AttachmentInfo(Struct, frozen=True):
    """A file that came with a prompt. `size` in bytes."""

    name: str
    mimeType: str
    size: int


class HistoryTool(Params, frozen=True):
    id: str
    name: str
    args: dict[str, Any]
    output: str | None = None
    isError: bool | None = None


class UserTurn(Struct, frozen=True, omit_defaults=True, tag="user", tag_field="role"):
    """`text` is what was typed; `attachments` are the files that came with it."""

    text: str
    turnId: str | None = None
    attachments: list[AttachmentInfo] = []


class AssistantTurn(Struct, frozen=True, tag="assistant", tag_field="role"):
    text: str
    reasoning: str
    tools: list[HistoryTool]


class History(Struct, frozen=True):
    """Answer of `_lembas/session/history`."""

    sessionId: str
    title: str
    root: str
    turns: list[UserTurn | AssistantTurn]


class Status(Struct, frozen=True, omit_defaults=True):
    """Answer of `_lembas/session/status`. `turnId` and `lastTurnId` are absent where there is none."""

    sessionId: str
    exists: bool
    held: str
    busy: bool
    title: str
    queued: list[str]
    turnId: str | None = None
    lastTurnId: str | None = None


class SteerParams(Params, frozen=True):
    """`_lembas/steer`: a message for the running turn."""

    sessionId: str
    text: str
    messageId: str | None = None


class CommandsParams(Params, frozen=True):
    """`_lembas/commands`: of a session, or of a directory that has none yet."""

    sessionId: str | None = None
    cwd: str | None = None


class CommandInput(Struct, frozen=True):
    hint: str


class CommandLembas(Struct, frozen=True):
    """`kind`: builtin, custom or skill."""

    kind: str


class CommandMeta(Struct, frozen=True):
    lembas: CommandLembas


class AvailableCommand(Struct, frozen=True, omit_defaults=True):
    """A command of a session: what `/name` in a prompt stands for."""

    name: str
    description: str
    input: CommandInput | UnsetType = UNSET
    meta: CommandMeta | UnsetType = field(name="_meta", default=UNSET)


class ConfigureParams(Params, frozen=True):
    """`_lembas/configure`: what is left out stays."""

    sessionId: str
    model: str | None = None
    effort: str | None = None


class TitleParams(Params, frozen=True):
    """`_lembas/session/title`."""

    sessionId: str
    title: str


class RewindParams(Params, frozen=True):
    """`_lembas/session/rewind`: the turn that is taken back with every later one."""

    sessionId: str
    turnId: str


class FilesSearchParams(Params, frozen=True):
    """`_lembas/files/search`: one of `sessionId` and `cwd`."""

    query: str
    sessionId: str | None = None
    cwd: str | None = None
    limit: int | None = None


class FilesSearchResult(Struct, frozen=True):
    """`files`: `{path, kind}`, kind file or dir; a path is relative to `root` and /-separated."""

    root: str
    files: list[Any]


class DirectoriesParams(Params, frozen=True):
    """`_lembas/directories`: no path for the places that there are."""

    path: str | None = None


class Dir(Struct, frozen=True, omit_defaults=True):
    """A directory of the device: whether `session/new` would take it, and why not."""

    path: str
    name: str
    accepted: bool
    reason: str | None = None


class Places(Struct, frozen=True):
    """Answer of `_lembas/directories` without a path, which is "" here."""

    path: str
    places: list[Dir]


class DirListing(Struct, frozen=True):
    """Answer of `_lembas/directories` with a path. `parent` is null where it is outside the roots."""

    path: str
    name: str
    accepted: bool
    parent: str | None
    entries: list[Dir]
    reason: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class TerminalOpenParams(Params, frozen=True):
    cwd: str | None = None
    cols: int = 80
    rows: int = 24


class TerminalOpenResult(Struct, frozen=True):
    """`shell` is bash, zsh, fish or other; `integration`: it marks its prompts."""

    terminalId: str
    cwd: str
    cols: int
    rows: int
    shell: str
    integration: bool


class TerminalInputParams(Struct, frozen=True):
    """`data` travels as base64 (msgspec's own form of bytes)."""

    terminalId: str
    data: bytes


class TerminalResizeParams(Struct, frozen=True):
    terminalId: str
    cols: int
    rows: int


class OutputPlace(Struct, frozen=True, omit_defaults=True):
    """Where a piece of output stands, for clients with `terminal_flow` or `terminal_resume` and those of this machine.

    `offset`: bytes of the terminal's output before it. `cols` and `rows`: the size it was written for, when it is
    another than that of the piece before.
    """

    offset: int
    cols: int | None = None
    rows: int | None = None


class OutputMeta(Struct, frozen=True):
    lembas: OutputPlace


class TerminalOutput(Struct, frozen=True, omit_defaults=True):
    terminalId: str
    data: bytes
    meta: OutputMeta | None = field(name="_meta", default=None)


class TerminalAckParams(Struct, frozen=True):
    """`_lembas/terminal/ack`: everything before `offset` has been shown."""

    terminalId: str
    offset: int


class TerminalAttachParams(Params, frozen=True):
    """`_lembas/terminal/attach`. `offset`: where the client stopped; None: it has nothing of the terminal."""

    terminalId: str
    offset: int | None = None


class TerminalAttachResult(Struct, frozen=True):
    """`offset`: where the output that follows begins. `redraw`: it is no continuation; the screen is to be cleared."""

    terminalId: str
    cwd: str
    cols: int
    rows: int
    shell: str
    integration: bool
    offset: int
    redraw: bool


class TerminalExit(Struct, frozen=True):
    """`code` is the shell's exit status; 128 + n when signal n ended it; null when it could not be learnt."""

    terminalId: str
    code: int | None


class AttachParams(Params, frozen=True):
    """`_hub/attach`, a local client's: a session, and the last `epoch:seq` it saw."""

    sessionId: str = ""
    since: str | None = None


class ShareParams(Params, frozen=True):
    """`_hub/share`, a local client's: show the session to the instance, or no more."""

    sessionId: str
    shared: bool


class AnnounceParams(Struct, frozen=True):
    """`_lembas/session/announce`: a terminal shares its session."""

    sessionId: str
    cwd: str
    title: str
    model: str
    instance: bool
    mode: str
    effort: str
    busy: bool
    origin: str = "terminal"


class LeftParams(Struct, frozen=True):
    """`_lembas/session/left`: the terminal let go of it. `available`: the service can open it at the next prompt."""

    sessionId: str
    available: bool


class SettledBy(Struct, frozen=True):
    """Who answered a card: terminal (a client of this machine), instance, or None: nobody."""

    by: str | None


class SettledMeta(Struct, frozen=True):
    lembas: SettledBy


class SettledHere(Struct, frozen=True):
    """`_lembas/permission/settled` as clients of this machine are told it."""

    sessionId: str
    toolCallId: str
    meta: SettledMeta = field(name="_meta")


class QueuedPrompt(Struct, frozen=True, omit_defaults=True):
    """A prompt that waits for the turns before it; a long text is cut."""

    turnId: str
    text: str
    attachments: list[AttachmentInfo] = []


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """How a session stands, for a client of this machine that joins (docs/protocol.md, "Local clients").

    `live`: events that go on where `turns` ends. `cards`: the toolCallIds of those that wait.
    """

    title: str
    root: str
    mode: str
    model: str
    effort: str
    shared: bool
    given: bool
    turns: list[UserTurn | AssistantTurn]
    live: list[Any]
    queued: list["QueuedPrompt"]
    plan: Any
    usage: Any
    cards: list[str]
    turnId: str | None = None
    lastTurnId: str | None = None


class AttachResult(Struct, frozen=True):
    """Answer of `_hub/attach`. `seq`: everything up to there (`epoch:seq`) is in the snapshot, or was seen, or follows at once."""

    sessionId: str
    seq: str
    snapshot: Snapshot | UnsetType = UNSET


class QueueParams(Struct, frozen=True):
    """`_hub/queue`: the prompts of a session that wait, in their order."""

    sessionId: str
    queued: list[QueuedPrompt]


class Gap(Struct, frozen=True):
    """`_hub/gap`: what came after `since` cannot be given any more; ask for history and status, then go on."""

    sessionId: str
    since: str
