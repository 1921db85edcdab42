"""What `lembasd harness check` finds wrong with a tool."""

from typing import Any

import pytest
from msgspec.structs import replace

from lembasd.harness.loader import TOOLS
from lembasd.harness.tool import Narrow
from lembasd.harness.validation import tool_problems

READ = TOOLS["read"]


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": []}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"description": "{{nobody}}"}, "the variable nobody is not declared"),
        ({"description": "{{nobody}}"}, "nothing fills the variable 'nobody'"),
        ({"variables": {**READ.variables, "more": "x"}}, "the variable more is used nowhere"),
        ({"requires": "plan"}, "`requires` and `unavailable` go together"),
        ({"unavailable": "not now"}, "`requires` and `unavailable` go together"),
        ({"renamed": {"a": "b"}}, "a cannot become b"),
        ({"renamed": {"offset": "path"}}, "offset cannot become path"),
        (
            {"narrow": {"cli": Narrow(drop=["path"])}},
            "narrow.cli: path is required and cannot be dropped",
        ),
        (
            {"parameters": parameters(path={"type": "string", "pattern": "x"})},
            "parameters.path: servers do not all know pattern",
        ),
        (
            {"parameters": {**parameters(path=TEXT), "required": ["a"]}},
            "parameters: a is required and not there",
        ),
        (
            {"parameters": parameters(path={"type": "array", "items": 7})},
            "parameters.path[] is no schema",
        ),
    ],
)
def test_a_broken_tool_is_named_with_what_is_wrong(change: dict[str, Any], problem: str) -> None:
    plain = {"renamed": {}, "narrow": {}} | change
    broken = replace(READ, **plain)
    assert f"tools/read.json: {problem}" in list(tool_problems(broken))


def test_every_tool_is_right() -> None:
    assert [problem for tool in TOOLS.values() for problem in tool_problems(tool)] == []
