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
    "array": list,
    "object": dict,
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
    found = _object(tool.parameters, args, "")
    if found is not None:
        return f"{tool.name}{found}"
    for key in ("path", "command"):
        if isinstance(args.get(key), str) and ("\0" in args[key] or not args[key]):
            return f"{tool.name}: {key!r} must be a text without NUL, and not empty."
    return None


def _object(schema: dict[str, Any], given: dict[str, Any], where: str) -> str | None:
    """What is wrong with an object, to be said behind the tool's name; `where`: the place it has in the arguments."""
    properties, required = schema["properties"], schema.get("required", [])
    for key in required:
        if key not in given:
            return f"{f': {where}' if where else ''} needs {key!r}."
    for key, value in given.items():
        inner = properties.get(key)
        if inner is None or (value is None and key not in required):
            continue  # more than asked for harms nothing; null stands for "left out"
        found = _value(inner, value, f"{where}.{key}" if where else key)
        if found is not None:
            return found
    return None


def _value(schema: dict[str, Any], value: Any, where: str) -> str | None:
    kind = _TYPES[schema["type"]]
    wrong_bool = isinstance(value, bool) and kind is not bool
    if wrong_bool or not isinstance(value, kind):
        return f": {where!r} must be of type {schema['type']}."
    if kind is int and value < schema.get("minimum", value):
        return f": {where!r} must be at least {schema['minimum']}."
    if isinstance(value, dict) and "properties" in schema:
        return _object(schema, value, where)
    if isinstance(value, list) and "items" in schema:
        found = (_value(schema["items"], one, f"{where}[{n}]") for n, one in enumerate(value))
        return next((one for one in found if one is not None), None)
    return None
