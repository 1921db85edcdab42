"""What is offered of the tools that MCP servers list."""

from typing import Any

import pytest

from lembasd.engine.native.core.mcp_tools import MAX_TOOLS, Listed, as_tool, offered
from lembasd.harness.tool import Tool
from lembasd.store.records import OfferedTool

OBJECT: dict[str, Any] = {"properties": {}, "type": "object"}


def names(*listed: Listed) -> list[str]:
    return [one.name for one in offered(listed, frozenset())[0]]


def test_a_tool_is_offered_under_its_servers_name() -> None:
    tools, more = offered([Listed("git", "log", " Show it. ", OBJECT)], frozenset())
    assert more == 0
    assert tools == [
        OfferedTool(
            name="mcp__git__log",
            server="git",
            tool="log",
            description="Show it.",
            parameters=OBJECT,
            risk="execute",
        )
    ]
    assert as_tool(tools[0]) == Tool(
        name="mcp__git__log",
        scope="cli",
        sessions="agent",
        risk="execute",
        exclusive=False,
        block="tool",
        purpose=False,
        description="Show it.",
        parameters=OBJECT,
    )


@pytest.mark.parametrize(
    ("read_only", "trusted", "risk"),
    [
        (True, frozenset({"s"}), "read"),
        (False, frozenset({"s"}), "execute"),
        (True, frozenset({"t"}), "execute"),
    ],
)
def test_only_of_a_server_that_is_trusted_a_tool_counts_as_one_that_reads(
    read_only: bool, trusted: frozenset[str], risk: str
) -> None:
    tools, _ = offered([Listed("s", "t", read_only=read_only)], trusted)
    assert [(one.risk, one.description) for one in tools] == [(risk, "t of s")]


def test_names_hold_what_servers_of_models_take() -> None:
    assert names(Listed("mein server", "größe/lesen")) == ["mcp__mein_server__gr_e_lesen"]


def test_long_names_end_in_a_hash_and_stay_apart() -> None:
    one, other = names(Listed("s", "x" * 100 + "1"), Listed("s", "x" * 100 + "2"))
    assert (len(one), len(other), one != other) == (64, 64, True)


def test_names_do_not_depend_on_who_answered_first() -> None:
    listed = [Listed("a", "b c"), Listed("a", "b/c"), Listed("b", "d")]
    assert names(*listed) == names(*reversed(listed))
    assert names(*listed)[2] == "mcp__b__d"
    assert [name[:-8] for name in names(*listed)[:2]] == ["mcp__a__b_c_"] * 2


def test_a_tool_cannot_take_the_name_that_another_is_given() -> None:
    listed = [Listed("a", "b c"), Listed("a", "b/c")]
    taken = names(*listed)[0].removeprefix("mcp__a__")
    with_thief = names(*listed, Listed("a", taken))
    assert len(set(with_thief)) == 3
    assert set(names(*listed)) < set(with_thief)


def test_a_tool_that_is_listed_twice_is_offered_once() -> None:
    assert names(Listed("s", "t", "old"), Listed("s", "t", "new")) == ["mcp__s__t"]


def test_what_is_over_the_bound_is_counted() -> None:
    listed = [Listed("s", f"t{number:03}") for number in range(MAX_TOOLS + 2)]
    tools, more = offered(listed, frozenset())
    assert (len(tools), more) == (MAX_TOOLS, 2)


def test_a_server_with_hundreds_of_tools_leaves_the_others_theirs() -> None:
    many = [Listed("a", f"t{number:03}") for number in range(500)]
    tools, more = offered([*many, Listed("z", "one"), Listed("z", "two")], frozenset())
    assert [one.name for one in tools[-3:]] == ["mcp__a__t093", "mcp__z__one", "mcp__z__two"]
    assert (len(tools), more) == (MAX_TOOLS, 406)
