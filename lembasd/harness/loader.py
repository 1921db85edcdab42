"""The harness data as values, with `{{variables}}` filled by whoever uses them."""

from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.harness.tool import Tool, fill, filled, narrowed
from lembasd.protocol.control import Mode

_DATA: Final = files("lembasd.harness")
#: which of the two projects that share the harness this is
PROJECT: Final = "cli"

VERSION: Final = (_DATA / "VERSION").read_text().strip()


class Steps(Struct, frozen=True):
    """The requests of a turn, and how often each word to go on is said in it; `texts` are the words."""

    backstop: int
    empty: int
    cut: int
    texts: dict[str, str]


class Budget(Struct, frozen=True):
    """What one turn may use: calls, tokens written, tokens read that were not in the server's cache."""

    calls: int
    output_tokens: int
    input_tokens: int


class RepeatsLoop(Struct, frozen=True):
    """From which identical result on the model is told, and which identical call is refused."""

    told: int
    refused: int
    texts: dict[str, str]


class BashLoop(Struct, frozen=True):
    """Seconds."""

    default_timeout: int
    max_timeout: int


class ReadLoop(Struct, frozen=True):
    """Of a file's line, what is shown of it."""

    max_line_chars: int


class ContextLoop(Struct, frozen=True):
    max_lines: int
    max_chars: int
    kept_lines: int
    kept_chars: int


class Compaction(Struct, frozen=True):
    """`share` of the window may be used and `reserve` tokens stay free; one that saves less than `least_saved` stalls."""

    share: float
    reserve: int
    least_saved: float
    ask: str
    no_tools: str
    message: str
    reads: str
    task: str
    left_out: str


class RetryLoop(Struct, frozen=True):
    attempts: int
    first_s: float
    last_s: float
    retry_after_max_s: float


class McpLoop(Struct, frozen=True):
    """Seconds until a server counts as one that does not start; how often one that ended is started again."""

    start_s: float
    restarts: int
    texts: dict[str, str]


class Attach(Struct, frozen=True):
    """Of one prompt: files attached, words that are looked at, characters of all that is shown."""

    files: int
    words: int
    chars: int
    texts: dict[str, str]


class BuiltinCommand(Struct, frozen=True):
    name: str
    description: str
    hint: str = ""


class CommandTexts(Struct, frozen=True):
    """commands.json. `reserved`: names of a client's own commands, which no file can take."""

    builtin: list[BuiltinCommand]
    reserved: frozenset[str]
    texts: dict[str, str]
    #: what is reviewed, and since when a changelog goes
    subjects: dict[str, str]
    since: dict[str, str]


class Loop(Struct, frozen=True):
    """loop.json."""

    steps: Steps
    #: by project
    budgets: dict[str, Budget]
    repeats: RepeatsLoop
    bash: BashLoop
    read: ReadLoop
    context: ContextLoop
    compaction: Compaction
    retry: RetryLoop
    mcp: McpLoop
    attach: Attach
    #: what the model is told of each level
    verbosity: dict[str, str]
    #: what a session is told of what has changed
    notes: dict[str, str]


LOOP: Final = msgspec.json.decode((_DATA / "loop.json").read_bytes(), type=Loop)
COMMANDS: Final = msgspec.json.decode((_DATA / "commands.json").read_bytes(), type=CommandTexts)
MODES: Final = msgspec.json.decode(
    (_DATA / "permission" / "modes.json").read_bytes(), type=dict[Mode, dict[str, str]]
)
#: every prompt text of the index, by its path
PROMPTS: Final = {
    path: _DATA.joinpath("prompts", *path.split("/")).read_text().rstrip("\n")
    for path in msgspec.json.decode((_DATA / "prompts" / "index.json").read_bytes(), type=dict)
}
SYSTEM_PROMPT: Final = PROMPTS["system/default.md"]
#: the presets of how a model speaks, by name
PERSONALITIES: Final = {
    path.removeprefix("personality/").removesuffix(".md"): text
    for path, text in PROMPTS.items()
    if path.startswith("personality/")
}
TOOLS: Final = {
    tool.name: tool
    for tool in (
        msgspec.json.decode(path.read_bytes(), type=Tool)
        for path in sorted((_DATA / "tools").iterdir(), key=lambda path: path.name)
        if path.name.endswith(".json")
    )
}
_VALUES: Final = {
    "default_timeout": str(LOOP.bash.default_timeout),
    "max_timeout": str(LOOP.bash.max_timeout),
    "max_lines": str(LOOP.context.max_lines),
}
_PURPOSE: Final = msgspec.json.decode((_DATA / "purpose.json").read_bytes(), type=dict[str, Any])
#: the name of a tool by each of its names
NAMES: Final = {
    name: tool.name
    for tool in TOOLS.values()
    for name in (tool.name, *tool.aliases.get(PROJECT, []))
}


def is_offered(tool: Tool) -> bool:
    """Whether a session on a device is given the tool."""
    return tool.scope in ("shared", PROJECT) and tool.sessions in ("agent", "both")


def function(tool: Tool) -> dict[str, Any]:
    """A tool as a model is sent it: narrowed, filled, and with `purpose` where its calls say what they are for."""
    narrow = tool.narrow.get(PROJECT)
    parameters = tool.parameters if narrow is None else narrowed(tool.parameters, narrow)
    parameters = filled(parameters, _VALUES)
    if tool.purpose:
        properties = {**parameters["properties"], **_PURPOSE}
        parameters = {**parameters, "properties": properties}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": fill(tool.description, _VALUES),
            "parameters": parameters,
        },
    }
