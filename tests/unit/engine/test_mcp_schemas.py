"""Schemas of MCP servers, as every model's server takes them."""

from typing import Any

import pytest

from lembasd.engine.native.core.mcp_schemas import (
    MAX_DESCRIPTION_CHARS,
    MAX_SCHEMA_CHARS,
    described,
    sanitised,
)

ANY = {"type": "object", "properties": {}}


def field(schema: Any, **root: Any) -> Any:
    """What becomes of the schema of a property."""
    whole = {"type": "object", "properties": {"f": schema}, **root}
    return sanitised(whole)["properties"]["f"]


@pytest.mark.parametrize("schema", [None, [], "x", {}, {"type": "string"}, {"$ref": "#"}])
def test_what_is_no_object_is_one_without_properties(schema: Any) -> None:
    assert sanitised(schema) == ANY


def test_a_plain_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": "How many.", "minimum": 1, "maximum": 9},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "number"}},
            "deep": {"type": "object", "properties": {"x": {"type": "boolean"}}},
        },
        "required": ["n"],
    }
    assert sanitised(schema) == schema


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ("x", {}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"type": "null"}, {}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "properties": 7}, {"type": "object", "properties": {}}),
        ({"type": "integer", "minimum": True}, {"type": "integer"}),
        (
            {"type": "string", "format": "date", "default": "x", "uniqueItems": True},
            {"type": "string", "description": '(default: "x") (format: "date")'},
        ),
        (
            {"description": "d", "oneOf": [{"type": "string"}, {"type": "integer"}]},
            {
                "anyOf": [
                    {"type": "string", "description": "d"},
                    {"type": "integer", "description": "d"},
                ]
            },
        ),
        ({"type": "object", "properties": {"a b": {}}, "required": ["a b"]}, ANY),
        ({"$ref": "#/$defs/a"}, {"type": "string", "description": "of a"}),
        ({"$ref": "#/$defs/not"}, {}),
        ({"$ref": "https://example.org/a"}, {}),
        ({"$ref": 7, "type": "string"}, {"type": "string"}),
        ({"$ref": "#/$defs/self"}, {}),
    ],
)
def test_a_keyword_that_some_servers_refuse_is_said_in_another_way(schema: Any, made: Any) -> None:
    defs = {"a": {"type": "string", "description": "of a"}, "self": {"$ref": "#/$defs/self"}}
    assert field(schema, **{"$defs": defs}) == made


def test_a_schema_that_holds_itself_ends() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    made = sanitised(tree)
    depth = 0
    while made.get("properties"):
        made, depth = made["properties"]["child"], depth + 1
    assert depth == 8


def test_alternatives_that_hold_themselves_end() -> None:
    choice = {"anyOf": [{"$ref": "#/$defs/c"}, {"type": "array", "items": {"$ref": "#/$defs/c"}}]}
    assert "anyOf" in field({"$ref": "#/$defs/c"}, **{"$defs": {"c": choice}})


def test_references_that_multiply_are_cut() -> None:
    wide = {f"p{n}": {"$ref": "#"} for n in range(64)}
    assert sanitised({"type": "object", "properties": wide}) == ANY


def test_a_long_schema_loses_its_descriptions_then_everything() -> None:
    told = {"type": "string", "description": "d" * 1000}
    properties = {f"p{n}": told for n in range(40)} | {"description": {"type": "array"}}
    made = sanitised({"type": "object", "properties": properties})
    assert made["properties"]["p0"] == {"type": "string"}
    assert made["properties"]["description"] == {"type": "array", "items": {}}
    values = {f"p{n}": {"enum": ["v" * 1000]} for n in range(40)}
    assert sanitised({"type": "object", "properties": values}) == ANY
    assert MAX_SCHEMA_CHARS < 40_000


def test_a_description_is_bounded_and_of_plain_characters() -> None:
    assert described(" a \ud800 ") == "a ?"
    long = described("x" * 2000)
    assert (len(long), long[-1]) == (MAX_DESCRIPTION_CHARS, "…")
