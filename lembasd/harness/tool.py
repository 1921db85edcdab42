"""A tool as the harness writes it down, and what one project makes of it."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, Literal

from msgspec import Struct

_VARIABLE: Final = re.compile(r"\{\{(\w+)\}\}")
_LONE_BULLET: Final = re.compile(r"^- \{\{(\w+)\}\}(?:\n|\Z)", re.MULTILINE)


class Narrow(Struct, frozen=True, forbid_unknown_fields=True):
    """What a project offers of a tool's parameters: without `drop`, and of `enum`'s properties these values alone.

    A path `a.b` is b inside a, `a[].b` is b inside the items of the array a.
    """

    drop: list[str] = []
    enum: dict[str, list[Any]] = {}


class Tool(Struct, frozen=True, forbid_unknown_fields=True):
    """One tools/<name>.json (harness.md, "What is here")."""

    name: str
    scope: Literal["shared", "cli", "llembas"]
    sessions: Literal["chat", "agent", "both"]
    risk: Literal["read", "write", "execute", "interact"]
    exclusive: bool
    block: Literal["shell", "edit", "read", "search", "web", "task", "plan", "hidden", "tool"]
    #: its calls say what they are for
    purpose: bool
    description: str
    parameters: dict[str, Any]
    #: what each variable in its texts means
    variables: dict[str, str] = {}
    #: by project: names that work as this tool
    aliases: dict[str, list[str]] = {}
    #: former names of arguments
    renamed: dict[str, str] = {}
    narrow: dict[str, Narrow] = {}
    #: to whom it is given; None: everybody
    offered: Literal["main", "subagent"] | None = None
    #: what must hold for it to work, and what a call answers while it does not
    requires: Literal["page", "display", "forge", "plan", "team"] | None = None
    unavailable: str | None = None
    #: always: the person is asked in every mode
    confirm: Literal["always"] | None = None


def fill(text: str, variables: Mapping[str, str]) -> str:
    """Put the variables into a text; a line that is nothing but a bullet and an empty variable disappears.

    Raises KeyError for a variable without a value: none may reach a model unfilled.
    """
    text = _LONE_BULLET.sub(lambda m: m[0] if variables[m[1]] else "", text)
    return _VARIABLE.sub(lambda m: variables[m[1]], text)


def filled(value: Any, variables: Mapping[str, str]) -> Any:
    """The same for every text in a value."""
    if isinstance(value, str):
        return fill(value, variables)
    if isinstance(value, dict):
        return {key: filled(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, variables) for one in value]
    return value


def variables_in(value: Any) -> set[str]:
    """The variables that the texts of a value hold."""
    if isinstance(value, str):
        return set(_VARIABLE.findall(value))
    if isinstance(value, dict):
        return set().union(*(variables_in(one) for one in value.values()))
    if isinstance(value, list):
        return set().union(*(variables_in(one) for one in value))
    return set()


def narrowed(parameters: dict[str, Any], narrow: Narrow) -> dict[str, Any]:
    """The parameters that a project offers: a subset, never anything of its own.

    Raises ValueError for a property that is not there or is required, or a value that the property does not have.
    """
    result = deepcopy(parameters)
    for path in narrow.drop:
        schema, name = _owner(result, path)
        if name in schema.get("required", []):
            raise ValueError(f"{path} is required and cannot be dropped")
        del schema["properties"][name]
    for path, values in narrow.enum.items():
        schema, name = _owner(result, path)
        kept = schema["properties"][name]
        if not set(values) <= set(kept.get("enum", [])):
            raise ValueError(f"{path} has no such values: {values}")
        kept["enum"] = [value for value in kept["enum"] if value in values]
    return result


def _owner(parameters: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """The schema that has the property a path names, and the property's name."""
    *steps, name = path.split(".")
    schema = parameters
    for step in steps:
        inner = schema.get("properties", {}).get(step.removesuffix("[]"))
        if inner is None:
            raise ValueError(f"there is no {path}")
        schema = inner["items"] if step.endswith("[]") else inner
    if name not in schema.get("properties", {}):
        raise ValueError(f"there is no {path}")
    return schema, name


def converted(tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, former names made present ones; a present name wins."""
    renamed = {new: args[old] for old, new in tool.renamed.items() if old in args}
    return {**renamed, **{key: value for key, value in args.items() if key not in tool.renamed}}
