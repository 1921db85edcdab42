"""What is odd in a streamed reply costs nothing beside it."""

import itertools
import json
from typing import Any

import msgspec
import pytest

from lembasd.engine.native.core import call_arguments, surrogates
from lembasd.engine.native.core.call_arguments import MAX_ARGUMENTS_CHARS
from lembasd.engine.native.core.call_parts import BuildingCall, CallParts
from lembasd.engine.native.core.reply import (
    MAX_REPLY_CHARS,
    MAX_TOKENS,
    Delta,
    ReasoningDelta,
    ReplyAssembler,
    StreamError,
    TextDelta,
    Usage,
)


def assembler() -> ReplyAssembler:
    numbers = itertools.count(1)
    return ReplyAssembler(lambda: f"call_{next(numbers):016x}", set())


def fed(one: ReplyAssembler, *events: bytes) -> list[Delta]:
    deltas: list[Delta] = []
    for event in events:
        news = one.feed(event)
        assert not isinstance(news, StreamError), news
        deltas += news
    return [*deltas, *one.end()]


def chunk(delta: Any, **more: Any) -> bytes:
    """As a server writes it that escapes all beyond ASCII; halves of characters too."""
    return json.dumps({"choices": [{"delta": delta, **more}]}).encode()


def call(arguments: Any, **more: Any) -> bytes:
    function = {"name": "read", "arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, "id": "a", "function": function, **more}]})


@pytest.mark.parametrize(
    "odd",
    [
        {"usage": []},
        {"usage": True},
        {"usage": {"prompt_tokens": "many"}},
        {"usage": {"prompt_tokens": 1.5, "cost": "free"}},
        {"usage": {"prompt_tokens": 1e300, "prompt_tokens_details": [1]}},
        {"usage": {"completion_tokens_details": {"reasoning_tokens": {}}}},
        {"timings": {"cache_n": 0.5}},
        {"prompt_progress": 7},
    ],
    ids=str,
)
def test_an_odd_field_beside_the_text_does_not_cost_the_text(odd: dict[str, Any]) -> None:
    one = assembler()
    event = {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}], **odd}
    assert fed(one, msgspec.json.encode(event)) == [TextDelta("hi")]
    assert (one.reply().text, one.reply().finish) == ("hi", "stop")


@pytest.mark.parametrize(
    "odd",
    [
        {"tool_calls": [None]},
        {"tool_calls": "none"},
        {"reasoning": {"a": 1}},
        {"reasoning_content": ["x"]},
    ],
    ids=str,
)
def test_an_odd_field_of_a_delta_does_not_cost_the_rest_of_it(odd: dict[str, Any]) -> None:
    assert fed(assembler(), chunk({"content": "hi", **odd})) == [TextDelta("hi")]


def test_an_odd_choice_does_not_cost_the_others() -> None:
    event = msgspec.json.encode({"choices": [None, "x", {"delta": {"content": "hi"}}]})
    assert fed(assembler(), event) == [TextDelta("hi")]


def test_what_can_be_read_of_an_odd_usage_counts() -> None:
    one = assembler()
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": [],
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    fed(one, chunk({"content": "hi"}), msgspec.json.encode({"choices": [], "usage": usage}))
    assert one.reply().usage == Usage(input=12, cached=5)


def test_numbers_that_are_no_count_of_tokens_count_nothing() -> None:
    one = assembler()
    usage = {"prompt_tokens": -5, "completion_tokens": MAX_TOKENS + 1, "cost": -1}
    fed(one, msgspec.json.encode({"choices": [], "usage": usage}))
    assert one.reply().usage == Usage()


@pytest.mark.parametrize("event", [b"[]", b"7", b'"x"', b"null", b'{"choices": {"a": 1}}'])
def test_json_of_another_shape_says_nothing(event: bytes) -> None:
    assert fed(assembler(), event) == []


def test_an_error_beside_odd_fields_is_an_error() -> None:
    event = msgspec.json.encode({"usage": [], "error": {"message": "no room"}})
    news = assembler().feed(event)
    assert news == StreamError("no room", "{'message': 'no room'}")


def test_bytes_that_are_no_utf8_become_the_sign_for_it() -> None:
    event = b'{"choices":[{"delta":{"content":"a\xffb"}}]}'
    assert fed(assembler(), event) == [TextDelta("a\ufffdb")]


def test_a_character_in_two_halves_is_put_together() -> None:
    one = assembler()
    deltas = fed(
        one,
        chunk({"reasoning_content": "\ud83d"}),
        chunk({"reasoning_content": "\ude00!"}),
        chunk({"content": "a\ud83d"}),
        chunk({"content": "\ude00b"}),
    )
    assert deltas == [ReasoningDelta("\U0001f600!"), TextDelta("a"), TextDelta("\U0001f600b")]


def test_half_a_character_without_the_other_becomes_the_sign_for_it() -> None:
    deltas = fed(assembler(), chunk({"content": "a\ude00b"}), chunk({"content": "c\ud83d"}))
    assert deltas == [TextDelta("a\ufffdb"), TextDelta("c"), TextDelta("\ufffd")]


def test_a_character_of_arguments_in_two_halves_is_put_together() -> None:
    one = assembler()
    fed(one, call('{"path":"\ud83d'), call('\ude00"}'))
    assert [each.args for each in one.reply().calls] == [{"path": "\U0001f600"}]


def test_arguments_with_half_a_character_never_run() -> None:
    one = assembler()
    fed(one, call('{"path":"a\\ud800b"}'))
    assert [(each.args, each.cut) for each in one.reply().calls] == [(None, False)]


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
def test_arguments_with_a_number_that_json_has_not_never_run(number: str) -> None:
    assert call_arguments.read(f'{{"limit":{number}}}').problem == "wrong"


def test_names_ids_and_additions_with_half_a_character_can_be_sent_back() -> None:
    one = assembler()
    odd = {"x": "\ud800", "y": "kept"}
    function = {"name": "re\ud800ad", "arguments": {"path": "\ud800"}, "z\ud800": 1}
    fed(one, chunk({"tool_calls": [{"index": 0, "id": "a\ud800", "function": function, **odd}]}))
    (found,) = one.reply().calls
    assert surrogates.can_be_sent(found)
    assert (found.name, found.server_id, found.extra, found.function_extra, found.args) == (
        "re\ufffdad",
        "a\ufffd",
        {"y": "kept"},
        {},
        {"path": "\ufffd"},
    )


def test_arguments_too_deep_to_write_down_never_run() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    part = {"index": 0, "id": "a", "function": {"name": "read", "arguments": deep}}
    found = CallParts(lambda: "call_1", ()).add(part)
    assert found is not None
    assert call_arguments.read(found[0].arguments).problem == "cut"


def test_arguments_longer_than_a_call_may_have_are_no_longer_taken_in() -> None:
    one = assembler()
    piece = "x" * 300_000
    fed(one, call('{"path":"'), *[call(piece) for _ in range(20)], call('"}'))
    (found,) = one.reply().calls
    assert len(found.arguments) <= 2 * MAX_ARGUMENTS_CHARS
    assert found.args is None


def test_a_reply_longer_than_one_may_be_is_cut_as_by_a_limit() -> None:
    one = assembler()
    deltas = fed(
        one,
        chunk({"reasoning_content": "r" * (MAX_REPLY_CHARS - 10)}),
        chunk({"content": "t" * 20}),
        chunk({"content": "more"}),
    )
    assert deltas == [ReasoningDelta("r" * (MAX_REPLY_CHARS - 10)), TextDelta("t" * 10)]
    assert one.full
    assert (one.reply().text, one.reply().is_cut) == ("t" * 10, True)


def test_numbers_stay_when_a_comma_too_many_is_left_out() -> None:
    assert call_arguments.read('{"limit":1.5,}').values == ({"limit": 1.5},)


def test_a_piece_that_begins_as_the_first_did_and_goes_on_otherwise_is_a_piece() -> None:
    building = BuildingCall("call_1")
    pieces = ["[1", ",2,", "[1;3,4,5]", "]"]
    assert [building.add_arguments(piece) for piece in pieces] == pieces
    assert building.arguments == "".join(pieces)
