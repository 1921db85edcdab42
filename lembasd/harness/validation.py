"""Whether the harness' data is what it says it is: every file, every variable, every name."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from lembasd.harness.loader import LOOP, MODES, PROJECT, TOOLS, VERSION, function, is_offered
from lembasd.harness.tool import Tool, narrowed, variables_in

__all__ = ["VERSION", "problems", "quirks", "tool_problems"]

_DATA: Final = files("lembasd.harness")
_RISKS: Final = frozenset({"read", "write", "execute", "interact"})
_SCHEMA_KEYS: Final = frozenset(
    {
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "description",
        "minimum",
        "additionalProperties",
    }
)


class Quirk(Struct, forbid_unknown_fields=True):
    """What some server does (`seen`), and what is done about it."""

    id: str
    seen: str
    state: Literal["handled", "avoided", "refused"]
    rule: str


class _Prompt(Struct, forbid_unknown_fields=True):
    scope: str
    variables: dict[str, str] = {}


def problems() -> Iterator[str]:
    """One sentence for each thing that is wrong; nothing when all is right."""
    yield from _names()
    for tool in TOOLS.values():
        yield from tool_problems(tool)
    yield from _prompts()
    yield from _quirks()
    for mode, rules in MODES.items():
        if set(rules) != _RISKS:
            yield f"permission/modes.json: {mode} must decide on {', '.join(sorted(_RISKS))}"
    for word in ("empty", "cut", "last_step"):
        if not LOOP.steps.texts.get(word):
            yield f"loop.json: steps.texts has no {word}"


def _names() -> Iterator[str]:
    owners: dict[str, str] = {}
    for tool in TOOLS.values():
        for name in (tool.name, *tool.aliases.get(PROJECT, [])):
            if name in owners:
                yield f"tools/{tool.name}.json: the name {name} is {owners[name]}'s already"
            owners[name] = tool.name


def tool_problems(tool: Tool) -> Iterator[str]:
    """What is wrong with one tool."""
    where = f"tools/{tool.name}.json"
    used = variables_in(tool.description) | variables_in(tool.parameters)
    for name in sorted(used - set(tool.variables)):
        yield f"{where}: the variable {name} is not declared"
    for name in sorted(set(tool.variables) - used):
        yield f"{where}: the variable {name} is used nowhere"
    if (tool.requires is None) != (tool.unavailable is None):
        yield f"{where}: `requires` and `unavailable` go together"
    properties = tool.parameters.get("properties", {})
    for old, new in tool.renamed.items():
        if new not in properties or old in properties:
            yield f"{where}: {old} cannot become {new}"
    yield from (f"{where}: {problem}" for problem in _schema(tool.parameters, "parameters"))
    for project, narrow in tool.narrow.items():
        try:
            narrowed(tool.parameters, narrow)
        except ValueError as error:
            yield f"{where}: narrow.{project}: {error}"
    if is_offered(tool):
        yield from (f"{where}: {problem}" for problem in _sent(tool))


def _sent(tool: Tool) -> Iterator[str]:
    try:
        sent = function(tool)
    except ValueError:
        return  # its `narrow` is wrong, which is said of it
    except KeyError as error:
        yield f"nothing fills the variable {error}"
        return
    if variables_in(sent):
        yield "a variable reaches the model"


def _schema(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{where} is no schema"
        return
    for key in sorted(set(schema) - _SCHEMA_KEYS):
        yield f"{where}: servers do not all know {key}"
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in properties:
            yield f"{where}: {name} is required and not there"
    for name, inner in properties.items():
        yield from _schema(inner, f"{where}.{name}")
    if "items" in schema:
        yield from _schema(schema["items"], f"{where}[]")


def _prompts() -> Iterator[str]:
    folder = _DATA / "prompts"
    index = msgspec.json.decode((folder / "index.json").read_bytes(), type=dict[str, _Prompt])
    for path, about in index.items():
        try:
            text = folder.joinpath(*path.split("/")).read_text()
        except FileNotFoundError:
            yield f"prompts/{path} is in the index and not there"
            continue
        for name in sorted(variables_in(text) ^ set(about.variables)):
            yield f"prompts/{path}: the variable {name} is declared or used, not both"
    for path in sorted(_below(folder, "") - set(index)):
        yield f"prompts/{path} is not in the index"


def _below(folder: Traversable, prefix: str) -> set[str]:
    """The paths of the texts in a folder of the harness."""
    found: set[str] = set()
    for one in folder.iterdir():
        path = f"{prefix}{one.name}"
        found |= _below(one, f"{path}/") if one.is_dir() else {path}
    return {path for path in found if path.endswith(".md")}


def quirks() -> list[Quirk]:
    """What servers do, from quirks.json. Raises msgspec.MsgspecError."""
    return msgspec.json.decode((_DATA / "quirks.json").read_bytes(), type=list[Quirk])


def _quirks() -> Iterator[str]:
    listed = quirks()
    if len({one.id for one in listed}) != len(listed):
        yield "quirks.json: an id stands twice"
