"""Judging a call's arguments against its tool's JSON schema: the part of it that our tools use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from lembasd.harness.loader import TOOLS
from lembasd.harness.tool import Tool
from lembasd.store.records import Call

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
}


def problem(call: Call, others: Mapping[str, Tool] = MappingProxyType({})) -> str | None:
    """Why this call can never run, as one sentence for the model; None: it may.

    `others`: tools of MCP servers, which judge their arguments themselves.
    """
    tool = TOOLS.get(call.name)
    if tool is None and call.name not in others:
        return f"There is no tool {call.name!r}. There are: {', '.join([*TOOLS, *others])}."
    if call.cut:
        return "The arguments end in their middle, so nothing was done; send less at once."
    if call.args is None:
        return "The arguments are not a JSON object; send them again."
    return None if tool is None else _against_schema(tool, call.args)


def _against_schema(tool: Tool, args: dict[str, Any]) -> str | None:
    properties = tool.parameters["properties"]
    for key in tool.parameters.get("required", []):
        if key not in args:
            return f"{tool.name} needs {key!r}."
    for key, value in args.items():
        schema = properties.get(key)
        if schema is None or (value is None and key not in tool.parameters.get("required", [])):
            continue  # more than asked for harms nothing; null stands for "left out"
        kind = _TYPES[schema["type"]]
        wrong_bool = isinstance(value, bool) and kind is not bool
        if wrong_bool or not isinstance(value, kind):
            return f"{tool.name}: {key!r} must be of type {schema['type']}."
        if kind is int and value < schema.get("minimum", value):
            return f"{tool.name}: {key!r} must be at least {schema['minimum']}."
    for key in ("path", "command"):
        if isinstance(args.get(key), str) and ("\0" in args[key] or not args[key]):
            return f"{tool.name}: {key!r} must be a text without NUL, and not empty."
    return None
