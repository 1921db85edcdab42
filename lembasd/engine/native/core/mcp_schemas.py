"""A server's JSON schema as every model's server takes it: few keywords, no references, bounded.

What is left out of a schema and would help a model is told in its description.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: schemas in schemas; what is deeper is any object
MAX_DEPTH: Final = 8
#: properties of one object, alternatives and values of one schema; the rest is left out
MAX_ENTRIES: Final = 64
#: characters of one description; the rest is left out
MAX_DESCRIPTION_CHARS: Final = 1024
#: characters of one tool's whole schema as JSON; over it descriptions are left out, and then everything
MAX_SCHEMA_CHARS: Final = 16_384
#: schemas made for one tool: references may multiply without end
MAX_NODES: Final = 512

#: several servers refuse a whole request for a property of another name
_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object"})
_TOLD: Final = ("default", "format", "pattern", "examples")
_NUMBERS: Final = ("minimum", "maximum")
_ANY_OBJECT: Final[dict[str, Any]] = {"type": "object", "properties": {}}


def sanitised(schema: Any) -> dict[str, Any]:
    """The parameters of a tool: an object, whatever its server said."""
    made = _Maker(schema).make()
    if _chars(made) > MAX_SCHEMA_CHARS:
        made = _without_descriptions(made)
    return made if _chars(made) <= MAX_SCHEMA_CHARS else dict(_ANY_OBJECT)


def described(text: str) -> str:
    """A description, bounded and of plain characters."""
    text = text.encode(errors="replace").decode().strip()
    return text if len(text) <= MAX_DESCRIPTION_CHARS else text[: MAX_DESCRIPTION_CHARS - 1] + "…"


def _chars(value: Any) -> int:
    return len(msgspec.json.encode(value))


class _Maker:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes = 0

    def make(self) -> dict[str, Any]:
        made = self._schema(self._root, 0)
        if made.get("type") != "object":
            return dict(_ANY_OBJECT)
        return {"properties": {}, **made}

    def _schema(self, schema: Any, depth: int) -> dict[str, Any]:
        self._nodes += 1
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or self._nodes > MAX_NODES:
            return {}
        choices = self._choices(schema)
        if len(choices) == 1:
            schema = {**_without(schema, "anyOf", "oneOf", "type"), **choices[0]}
        elif choices:
            return self._any_of(schema, choices, depth)
        return self._plain(schema, depth)

    def _resolved(self, schema: Any) -> Any:
        """A schema with its reference followed; one that leads nowhere, or round in circles, says nothing."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                return schema
            schema = {**_without(schema, "$ref"), **self._target(schema["$ref"])}
        return {}

    def _target(self, reference: Any) -> Mapping[str, Any]:
        found: Any = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            return {}
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def _choices(self, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The alternatives of a schema, the one that only allows null left out."""
        found = schema.get("anyOf") or schema.get("oneOf")
        if not isinstance(found, list):
            kinds = schema.get("type")
            found = [{"type": kind} for kind in kinds] if isinstance(kinds, list) else []
        resolved = [self._resolved(one) for one in found[:MAX_ENTRIES]]
        return [one for one in resolved if isinstance(one, Mapping) and one.get("type") != "null"]

    def _any_of(
        self, schema: Mapping[str, Any], choices: list[Mapping[str, Any]], depth: int
    ) -> dict[str, Any]:
        if depth >= MAX_DEPTH:
            return {}
        rest = _without(schema, "anyOf", "oneOf", "type")
        # some servers take nothing beside anyOf: what is common to all stands in each
        return {"anyOf": [self._schema({**rest, **one}, depth + 1) for one in choices]}

    def _plain(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        kind = schema.get("type")
        if kind is None and "properties" in schema:
            kind = "object"
        if isinstance(kind, str) and kind in _TYPES:
            made["type"] = kind
        text = _description(schema)
        if text:
            made["description"] = text
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            made["enum"] = values[:MAX_ENTRIES]
        made.update({key: schema[key] for key in _NUMBERS if _is_number(schema.get(key))})
        if kind == "object":
            made.update(self._object(schema, depth))
        if kind == "array":
            made["items"] = (
                self._schema(schema.get("items"), depth + 1) if depth < MAX_DEPTH else {}
            )
        return made

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        said = schema.get("properties")
        if not isinstance(said, Mapping) or depth >= MAX_DEPTH:
            return {"properties": {}}
        names = [name for name in said if isinstance(name, str) and _PROPERTY.fullmatch(name)]
        properties = {name: self._schema(said[name], depth + 1) for name in names[:MAX_ENTRIES]}
        required = schema.get("required")
        needed = (
            [name for name in required if isinstance(name, str) and name in properties]
            if isinstance(required, list)
            else []
        )
        return {"properties": properties, **({"required": needed} if needed else {})}


def _without(schema: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _description(schema: Mapping[str, Any]) -> str:
    said = schema.get("description")
    parts = [said] if isinstance(said, str) and said.strip() else []
    parts += [
        f"({key}: {msgspec.json.encode(schema[key]).decode()})" for key in _TOLD if key in schema
    ]
    return described(" ".join(parts))


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_descriptions(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        # a property may be called "description": its schema is an object, never a text
        key: _without_descriptions(one)
        for key, one in value.items()
        if key != "description" or not isinstance(one, str)
    }
