"""Whatever MCP servers list, what a model is offered is fit to be sent."""

import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.mcp_schemas import MAX_SCHEMA_CHARS, sanitised
from lembasd.engine.native.core.mcp_tools import Listed, offered

KEYWORDS = ["type", "properties", "items", "anyOf", "oneOf", "enum", "const", "required", "$ref"]
KEPT = {"type", "properties", "items", "anyOf", "enum", "required", "description"}
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.sampled_from(["object", "array", "string", "null", "#", "#/$defs/a", "a", ""]),
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*KEYWORDS, "a", "$defs", "description"]), inner),
    ),
    max_leaves=30,
)
texts = st.text(max_size=80)
listed = st.lists(
    st.builds(Listed, server=texts, name=texts, description=texts, schema=schemas), max_size=8
)


def check(schema: Any) -> None:
    assert set(schema) <= KEPT | {"minimum", "maximum"}
    for inner in schema.get("properties", {}).values():
        check(inner)
    for inner in schema.get("anyOf", []):
        check(inner)
    assert set(schema.get("required", [])) <= set(schema.get("properties", {}))


@given(schema=schemas, defs=schemas)
def test_a_schema_is_an_object_of_few_keywords(schema: Any, defs: Any) -> None:
    whole = {"type": "object", "properties": {"p": schema}, "$defs": {"a": defs}}
    made = sanitised(whole)
    assert made["type"] == "object"
    check(made)
    assert len(msgspec.json.encode(made)) <= MAX_SCHEMA_CHARS


@given(tools=listed)
def test_names_are_fit_and_never_two_of_one(tools: list[Listed]) -> None:
    made, _ = offered(tools, frozenset())
    names = [one.name for one in made]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)
    assert made == offered([*reversed(tools)], frozenset())[0] or len(
        {(one.server, one.name) for one in tools}
    ) < len(tools)
