"""Reading what clients ask of a session. What cannot be taken is RequestRefused: -32602 and one sentence."""

from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from lembasd.protocol.acp import (
    MODES,
    NewSessionParams,
    PromptParams,
    SessionMode,
    SessionModes,
    SetModeParams,
    lowered,
    read_mode,
)
from lembasd.protocol.context import SaidContext
from lembasd.protocol.control import Mode, Settings
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.protocol.lembas import (
    CommandsParams,
    ConfigureParams,
    RewindParams,
    ShareParams,
    SteerParams,
    TitleParams,
)
from lembasd.protocol.mcp import McpServer, read_client_servers
from lembasd.worker.core import blocks
from lembasd.worker.core.blocks import Upload

T = TypeVar("T", bound=Struct)

#: a client's turn id; a longer one is refused, since 200 of them are kept for each session
MAX_TURN_ID_CHARS: Final = 200

#: a message for a running turn; it is put into a conversation that may be nearly full
MAX_STEER_BYTES: Final = 200_000

#: a title is one line of a list (link.md, _lembas/session/title)
MAX_TITLE_CHARS: Final = 200

#: what a client may hold of a session: all of it goes before everything else that its model reads
MAX_CONTEXT_BYTES: Final = 200_000

#: a model's name or an effort; a longer one is none
MAX_NAME_CHARS: Final = 500

NO_LOGIN: Final = "this device is not logged in; log in there with `lembas login`"

#: control characters: a list of titles may be shown in a terminal
_CONTROLS: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")

_new: Final = msgspec.json.Decoder(NewSessionParams)
_prompt: Final = msgspec.json.Decoder(PromptParams)
_commands: Final = msgspec.json.Decoder(CommandsParams)
_set_mode: Final = msgspec.json.Decoder(SetModeParams)
_steer: Final = msgspec.json.Decoder(SteerParams)
_configure: Final = msgspec.json.Decoder(ConfigureParams)
_title: Final = msgspec.json.Decoder(TitleParams)
_share: Final = msgspec.json.Decoder(ShareParams)
_rewind: Final = msgspec.json.Decoder(RewindParams)
_NAMES: Final[dict[Mode, tuple[str, str]]] = {
    "plan": ("Plan", "Reads and plans; changes nothing"),
    "manual": ("Manual", "Asks before each change and each command"),
    "edit": ("Edit", "Edits files of the project; asks before each command"),
    "auto": ("Auto", "Asks nothing, within the floor"),
}


class Prompt(Struct, frozen=True):
    """What a client wants done. `turn_id` None: it named none."""

    text: str
    turn_id: str | None
    uploads: list[Upload] = []
    context: SaidContext = SaidContext()


class NewSession(Struct, frozen=True):
    """What a session is to be. `cwd` is not judged yet, and the model is not looked for."""

    cwd: str
    mode: Mode
    model: str
    effort: str
    #: MCP servers of the client; they live as long as the session's process
    servers: list[McpServer] = []
    context: SaidContext = SaidContext()


def _refuse(sentence: str) -> NoReturn:
    raise RequestRefused(INVALID_PARAMS, sentence)


def _decode(decoder: msgspec.json.Decoder[T], method: str, params: bytes) -> T:
    try:
        return decoder.decode(params or b"{}")
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RequestRefused(
            INVALID_PARAMS, f"the params of {method} cannot be read: {error}"
        ) from error


def read_prompt(params: bytes) -> Prompt:
    """The params of session/prompt."""
    asked = _decode(_prompt, "session/prompt", params)
    turn_id = asked.meta.lembas.turnId
    if turn_id is not None and not 0 < len(turn_id) <= MAX_TURN_ID_CHARS:
        _refuse(f"a turnId has 1 to {MAX_TURN_ID_CHARS} characters; send another one")
    text, uploads = blocks.read(asked.prompt)
    if not text.strip() and not uploads:
        _refuse("the prompt is empty; write something")
    return Prompt(text, turn_id, uploads, _context(asked.meta.lembas))


def read_commands(params: bytes) -> CommandsParams:
    """The params of _lembas/commands: one of a session and a directory."""
    asked = _decode(_commands, "_lembas/commands", params)
    if bool(asked.sessionId) == bool(asked.cwd):
        _refuse("_lembas/commands needs either a sessionId or a cwd; send one of them")
    return asked


def _context(said: SaidContext) -> SaidContext:
    """The client's pieces alone, whatever else came with them."""
    context = SaidContext(said.system_prompt, said.personalization, said.library, said.prototypes)
    if len(msgspec.json.encode(context)) > MAX_CONTEXT_BYTES:
        _refuse(
            f"what a client holds of a session (system_prompt, personalization, library, prototypes) may have "
            f"{MAX_CONTEXT_BYTES // 1000} kB; shorten it"
        )
    return context


def read_title(params: bytes) -> str:
    """The title of _lembas/session/title, as one line."""
    asked = _decode(_title, "_lembas/session/title", params).title
    if len(asked) > MAX_TITLE_CHARS:
        _refuse(f"a title has at most {MAX_TITLE_CHARS} characters; send a shorter one")
    title = " ".join(asked.translate(_CONTROLS).split())
    if not title:
        _refuse("the title is empty; write something")
    return title


def read_configure(params: bytes) -> tuple[str | None, str | None]:
    """Model and effort of _lembas/configure, None where they stay."""
    asked = _decode(_configure, "_lembas/configure", params)
    return _name(asked.model, "model"), _name(asked.effort, "effort")


def _name(text: str | None, what: str) -> str | None:
    if text is not None and not 0 < len(text) <= MAX_NAME_CHARS:
        _refuse(f"the name of {what} has 1 to {MAX_NAME_CHARS} characters; send another one")
    return text


def read_share(params: bytes) -> bool:
    """Whether _hub/share wants the session shown."""
    return _decode(_share, "_hub/share", params).shared


def read_rewind(params: bytes) -> str:
    """The turn of _lembas/session/rewind."""
    turn_id = _decode(_rewind, "_lembas/session/rewind", params).turnId
    if not 0 < len(turn_id) <= MAX_TURN_ID_CHARS:
        _refuse("the session has no such turn; name one of its history")
    return turn_id


def read_steer(params: bytes) -> tuple[str, str]:
    """Text and message id ("" for none) of _lembas/steer."""
    asked = _decode(_steer, "_lembas/steer", params)
    message_id = asked.messageId or ""
    if len(message_id) > MAX_TURN_ID_CHARS:
        _refuse(f"a messageId has at most {MAX_TURN_ID_CHARS} characters; send another one")
    if not asked.text.strip():
        _refuse("the message is empty; write something")
    if len(asked.text.encode(errors="surrogatepass")) > MAX_STEER_BYTES:
        _refuse(
            f"a message for a running turn holds at most {MAX_STEER_BYTES // 1000} kB; put it in a file"
        )
    return asked.text, message_id


def read_new(params: bytes, settings: Settings, *, local: bool) -> NewSession:
    """The params of session/new, with what the device's settings make of what they leave open.

    `local`: a person at this machine asks, whom the limits do not bind.
    """
    asked = _decode(_new, "session/new", params)
    if asked.mcpServers and not local:
        _refuse("MCP servers of a client are not started here; send an empty mcpServers")
    mode = settings.mode if asked.meta.mode is None else _mode(asked.meta.mode)
    if settings.account is None:
        _refuse(NO_LOGIN)
    for text, what in (
        (asked.meta.lembas_model, "model"),
        (asked.meta.model, "model"),
        (asked.meta.effort, "effort"),
    ):
        _name(text or None, what)
    model = (
        asked.meta.lembas_model
        or asked.meta.model
        or settings.model
        or settings.account.default_model
    )
    if not model:
        _refuse("no model is chosen; name one, or set it with `lembas config set model NAME`")
    return NewSession(
        cwd=asked.cwd,
        mode=mode if local else lowered(mode, settings.remote.max_mode),
        model=model,
        effort=asked.meta.effort or settings.effort,
        servers=_servers(asked.mcpServers),
        context=_context(asked.meta.lembas),
    )


def _servers(entries: list[Any]) -> list[McpServer]:
    try:
        return read_client_servers(entries)
    except ValueError as error:
        _refuse(f"an MCP server must be {error}; correct mcpServers")


def read_set_mode(params: bytes) -> Mode:
    """The mode that session/set_mode asks for, as asked."""
    return _mode(_decode(_set_mode, "session/set_mode", params).modeId)


def _mode(text: str) -> Mode:
    mode = read_mode(text)
    if mode is None:
        _refuse(f"{text!r} is no mode; choose one of {', '.join(MODES)}")
    return mode


def new_result(session_id: str, made: NewSession, ceiling: Mode) -> dict[str, Any]:
    """The result of session/new. `ceiling`: the widest mode this client may choose."""
    widest = MODES.index(ceiling)
    available = [
        SessionMode(id=mode, name=_NAMES[mode][0], description=_NAMES[mode][1])
        for mode in MODES[: widest + 1]
    ]
    return {
        "sessionId": session_id,
        "modes": SessionModes(currentModeId=made.mode, availableModes=available),
        "_meta": {
            "lembas": {
                "model": made.model,
                "mode": made.mode,
                "effort": made.effort,
                # a device has one server, and every model is its
                "instance": True,
            }
        },
    }
