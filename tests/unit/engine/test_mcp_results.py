"""Answers of MCP servers as text."""

from typing import Any

import pytest

from lembasd.engine.native.core.mcp_results import MAX_CHARS, text_of


@pytest.mark.parametrize(
    ("content", "structured", "text"),
    [
        ([], None, "(no content)"),
        ([{"type": "text", "text": ""}], None, "(no content)"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {"n": 1}, "a\nb"),
        ([], {"n": 1}, '{\n  "n": 1\n}'),
        ([], 0, "0"),
        (
            [{"type": "image", "mimeType": "image/png", "data": "AAAA"}],
            None,
            "[image image/png, 3 bytes]",
        ),
        ([{"type": "audio"}], None, "[audio , 0 bytes]"),
        (
            [{"type": "resource_link", "name": "n", "uri": "file:///n"}],
            None,
            "[resource n: file:///n]",
        ),
        (
            [{"type": "resource", "resource": {"uri": "u", "text": "inside"}}],
            None,
            "[resource u]\ninside",
        ),
        (
            [{"type": "resource", "resource": {"uri": "u", "blob": "AA=="}}],
            None,
            "[resource u, binary, 1 bytes]",
        ),
        ([{"type": "resource"}], None, "[resource]"),
        ([{"type": "smell"}, "x"], None, "[smell]"),
        ([{"type": "text", "text": "a\ud800"}], None, "a?"),
    ],
)
def test_each_part_is_told(content: list[Any], structured: Any, text: str) -> None:
    assert text_of(content, structured) == text


def test_a_long_answer_keeps_head_and_tail() -> None:
    text = text_of([{"type": "text", "text": "a" * MAX_CHARS + "b" * 10}])
    assert text[:2] == "aa"
    assert text.endswith("b" * 10)
    assert "\n[10 characters left out]\n" in text
