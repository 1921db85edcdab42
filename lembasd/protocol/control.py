"""Payloads of the small frames that a hub and its workers and PTYs exchange beside JSON-RPC.

They exist so that a hub which decodes no JSON-RPC payload of a worker still knows what it must.
"""

from typing import Literal

from msgspec import Struct

from lembasd.protocol.context import Personalization
from lembasd.protocol.mcp import McpServer
from lembasd.protocol.permission import Rule

Mode = Literal["plan", "manual", "edit", "auto"]
#: whether sessions of this machine are shown to the instance: none, those that a person says, each inside the limits
Share = Literal["never", "ask", "always"]
#: what the model may change of its session
SettingKey = Literal["mode", "effort", "title", "verbosity"]


class QueuedTurn(Struct, frozen=True, omit_defaults=True):
    """A prompt that waits for the turn before it."""

    turn_id: str


class CardInfo(Struct, frozen=True, omit_defaults=True):
    """A request that waits for a person. `kind`: permission, question or plan."""

    id: str  # the JSON-RPC id of the request as last asked: "<session>:<epoch>:<n>"
    tool_call_id: str
    kind: str = "permission"
    patient: bool = False


class SessionState(Struct, frozen=True, omit_defaults=True):
    """A worker's STATE frame, sent at each change."""

    busy: bool
    turn_id: str | None = None
    queued: list[QueuedTurn] = []
    last_turn_id: str | None = None
    title: str = ""
    root: str = ""
    mode: str = ""
    model: str = ""
    #: false until session/new was accepted
    stored: bool = True
    #: the instance was given it
    given: bool = False
    #: what its process has that no other could take up: it is not replaced meanwhile by one of another version
    holds: list[str] = []
    #: this process' own proportional memory and open descriptors; others may not read them (it is not dumpable)
    pss_bytes: int = 0
    fds: int = 0


class TerminalState(Struct, frozen=True, omit_defaults=True):
    """A PTY's STATE frame: sent when the shell runs, when its size changes, and before its end is told (`ended`)."""

    shell_pid: int | None = None
    cwd: str = ""
    cols: int = 80
    rows: int = 24
    shell: str = "other"
    ended: bool = False


class Extensions(Struct, frozen=True):
    """Extensions of ours that a client asked for in `clientCapabilities._meta.lembas`."""

    terminal_flow: bool = False
    terminal_resume: bool = False
    replay: bool = False
    #: of a client on this machine
    terminal_frames: bool = False


class Attached(Struct, frozen=True, omit_defaults=True):
    """A client is attached to the session or terminal from now on.

    `since` is the `epoch:seq` it saw last: what came after is sent to it alone, or a gap is said.
    None: nothing is replayed (it just opened the session, or takes it as it is).
    """

    client: int
    #: what it said in clientCapabilities._meta.lembas.protocol; 0 for a client that is not LLeMbas
    protocol: int = 0
    show: bool = False
    #: a person on this machine, whom the device's remote limits do not bind
    local: bool = False
    #: it made the session, or its message started the session's worker
    opened: bool = False
    #: it was attached already, and nothing is new but `protocol`
    known: bool = False
    since: str | None = None
    #: of a terminal: the client says how far it has shown the output (`_lembas/terminal/ack`), and is told where it stands
    flow: bool = False
    #: of a terminal: it waits for the client's next link when this one is gone
    resume: bool = False
    #: of a terminal: the client's `_lembas/terminal/attach` follows, and says where it begins
    asks: bool = False
    #: of a terminal: its output is sent as it is (`envelope.OUTPUT`)
    frames: bool = False


class Remote(Struct, frozen=True, omit_defaults=True):
    """The `remote:` block of config.yaml as it is now: what the instance may do here."""

    enabled: bool = False
    roots: list[str] = []
    max_mode: Mode = "edit"
    require_trust: bool = True
    terminal: bool = False
    terminal_integration: bool = True
    approval_timeout_s: float = 300.0
    scheduled: bool = False


class Account(Struct, frozen=True, omit_defaults=True):
    """The login a worker's models are asked with. It is sent over the socket and kept in memory only."""

    base_url: str
    token: str
    connection: str | None = None
    instance_name: str = ""
    default_model: str | None = None

    def __repr__(self) -> str:
        return f"Account(base_url={self.base_url!r}, connection={self.connection!r}, token=…)"


class Settings(Struct, frozen=True, omit_defaults=True):
    """What a worker or PTY must know of the device, sent before its first request and at each change."""

    remote: Remote = Remote()
    #: directories a person has trusted, absolute
    trusted: list[str] = []
    account: Account | None = None
    worker_idle_s: float = 900.0
    #: of which the hub ends one that has more resident in memory; and how many may run
    worker_memory_bytes: int | None = None
    max_workers: int = 256
    #: hardly any room is left where sessions are kept: no turn begins
    low_disk: bool = False
    #: defaults of local sessions
    model: str | None = None
    mode: Mode = "manual"
    effort: str = "default"
    #: the rules of config.yaml, added to the defaults
    permission: list[Rule] = []
    #: MCP servers of the person's config.yaml
    mcp: list[McpServer] = []
    #: hosts that web_fetch may ask though they are on this machine or its network
    web_hosts: list[str] = []
    share: Share = "ask"
    #: of sessions whose client has none
    personalization: Personalization = Personalization()


class AttachAsked(Struct, frozen=True):
    """What a session's process is asked as `_hub/attach`: what the client asked, and which protocol it speaks."""

    sessionId: str
    since: str | None = None
    protocol: int = 0


class Credit(Struct, frozen=True):
    """Payload bytes of a terminal's output that are on their way to a viewer no more."""

    bytes: int


class Need(Struct, frozen=True):
    """What a worker asks of its hub. `account`: the token was refused (401), is there a newer one?"""

    what: Literal["account"]


class Leaving(Struct, frozen=True, omit_defaults=True):
    """An idle process asks to end. `superseded`: it is of another version than its hub, whose own is to open the session."""

    superseded: bool = False


class Stop(Struct, frozen=True, omit_defaults=True):
    """End now. `reason` is said to whoever waits for an answer."""

    reason: str = "stopped"


class Unknown(Struct, frozen=True):
    """The answer to a frame whose kind is not known."""

    kind: str
