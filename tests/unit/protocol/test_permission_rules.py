"""Permission rules as people write them."""

from typing import Any

import pytest

from lembasd.protocol.permission import MAX_RULE_CHARS, MAX_RULE_TEXTS, Rule, read_rule


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"allow": "bash"}, Rule("allow", "bash")),
        ({"deny": "*"}, Rule("deny", "*")),
        ({"ask": "bash", "command": "make *"}, Rule("ask", "bash", command=("make *",))),
        (
            {"allow": "bash", "command": ["a", "b"], "unless": "-f", "inside": True},
            Rule("allow", "bash", command=("a", "b"), unless=("-f",), inside=True),
        ),
        ({"deny": "read", "path": "~/x"}, Rule("deny", "read", path="~/x")),
    ],
)
def test_a_rule_is_read(given: Any, rule: Rule) -> None:
    assert read_rule(given) == rule


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("allow", "such as `allow: bash`"),
        ({}, "one of allow, ask and deny"),
        ({"allow": "a", "deny": "a"}, "one of allow, ask and deny"),
        ({"allow": 1}, "tool, command, path"),
        ({"allow": "a", "comand": "x"}, "tool, command, path"),
        ({"allow": "a", "command": 1}, "tool, command, path"),
        ({"allow": " "}, "are not empty"),
        ({"allow": "a", "command": " "}, "are not empty"),
        ({"allow": "a", "command": "b", "path": "c"}, "not both"),
        ({"allow": "a", "command": "x" * (MAX_RULE_CHARS + 1)}, "at most"),
        ({"allow": "a", "command": ["x"] * (MAX_RULE_TEXTS + 1)}, "at most"),
    ],
)
def test_a_rule_that_is_none_says_what_was_expected(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_rule(given)
