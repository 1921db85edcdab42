"""A streamed reply, put together."""

import itertools
from typing import Any

import msgspec
import pytest

from lembasd.engine.native.core import call_arguments
from lembasd.engine.native.core.call_parts import MAX_CALLS
from lembasd.engine.native.core.reply import (
    CallDelta,
    Delta,
    Progress,
    ReasoningDelta,
    Reply,
    ReplyAssembler,
    StreamError,
    TextDelta,
    Usage,
    error_text,
)
from lembasd.store.records import Call


def assembler(*used: str) -> ReplyAssembler:
    numbers = itertools.count(1)
    return ReplyAssembler(lambda: f"call_{next(numbers):016x}", set(used))


def ours(number: int) -> str:
    return f"call_{number:016x}"


def chunk(delta: dict[str, Any] | None = None, **more: Any) -> bytes:
    return msgspec.json.encode({"choices": [{"index": 0, "delta": delta or {}, **more}]})


def piece(**part: Any) -> bytes:
    """A chunk with one piece of a call; `name` and `arguments` go into its function."""
    function = {key: part.pop(key) for key in ("name", "arguments") if key in part}
    return chunk({"tool_calls": [{**part, "function": function}]})


def whole(one: ReplyAssembler, *chunks: bytes) -> Reply:
    for data in chunks:
        assert not isinstance(one.feed(data), StreamError)
    return one.reply()


def call(number: int, server_id: str, name: str, arguments: str) -> Call:
    return Call(
        id=ours(number),
        server_id=server_id,
        name=name,
        arguments=arguments,
        args=call_arguments.read(arguments).values[0],
    )


def test_text_and_reasoning_come_as_deltas_and_stand_in_the_reply() -> None:
    one = assembler()
    deltas: list[Delta] = []
    for data in (
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"reasoning": "!"}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}, finish_reason="stop"),
    ):
        news = one.feed(data)
        assert not isinstance(news, StreamError)
        deltas += news
    assert deltas == [
        ReasoningDelta("hm"),
        ReasoningDelta("!"),
        TextDelta("Hel"),
        TextDelta("lo"),
    ]
    assert one.reply() == Reply(
        text="Hello", reasoning="hm!", reasoning_key="reasoning", finish="stop"
    )


def test_only_the_end_marker_ends_a_reply() -> None:
    one = assembler()
    one.feed(chunk({"content": "a"}, finish_reason="stop"))
    assert not one.ended
    assert one.feed(b" [DONE] ") == []
    assert one.ended


def test_there_is_output_once_anything_of_the_reply_has_come() -> None:
    one = assembler()
    one.feed(chunk({"role": "assistant"}))
    assert not one.has_output
    one.feed(chunk({"content": "a"}))
    assert one.has_output


def test_a_whole_message_in_place_of_a_stream_is_read_too() -> None:
    data = msgspec.json.encode(
        {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    )
    assert whole(assembler(), data) == Reply(text="Hello", finish="stop")


def test_what_is_no_chunk_is_passed_over() -> None:
    one = assembler()
    for data in (b"", b": a comment", b"[1]", b'{"choices": null}', b'{"choices": [{}]}'):
        assert one.feed(data) == []
    assert one.reply() == Reply()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"message": "overloaded"}, "overloaded"),
        ({"detail": "too long"}, "too long"),
        ({"code": 7}, "{'code': 7}"),
        ("plain", "plain"),
    ],
)
def test_an_error_in_the_stream_is_told_in_its_own_words(error: Any, words: str) -> None:
    news = assembler().feed(msgspec.json.encode({"error": error}))
    assert isinstance(news, StreamError)
    assert news.message == words
    assert error_text(error) == words


def test_usage_is_read_as_the_server_counted() -> None:
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 80},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    data = msgspec.json.encode({"choices": [], "usage": counts})
    assert whole(assembler(), data) == Reply(usage=Usage(100, 20, 80, 5))
    bare = msgspec.json.encode({"usage": {"prompt_tokens": None, "prompt_tokens_details": {}}})
    assert whole(assembler(), bare) == Reply()


def test_a_call_is_put_together_from_its_pieces() -> None:
    one = assembler()
    news = [
        one.feed(piece(index=0, id="srv_1", name="read")),
        one.feed(piece(index=0, arguments='{"path"')),
        one.feed(piece(index=0, arguments=': "a"}')),
    ]
    assert news == [
        [],
        [CallDelta(ours(1), "read", '{"path"')],
        [CallDelta(ours(1), "read", ': "a"}')],
    ]
    assert one.reply().calls == [call(1, "srv_1", "read", '{"path": "a"}')]


def test_calls_of_two_indexes_do_not_mix() -> None:
    reply = whole(
        assembler(),
        piece(index=0, id="a", name="read", arguments='{"x'),
        piece(index=1, id="b", name="list", arguments='{"y'),
        piece(index=0, arguments='": 1}'),
        piece(index=1, arguments='": 2}'),
    )
    assert reply.calls == [call(1, "a", "read", '{"x": 1}'), call(2, "b", "list", '{"y": 2}')]


def test_names_and_ids_that_come_again_are_set_once() -> None:
    reply = whole(
        assembler(),
        piece(index=0, id="a", name="bash", arguments="{"),
        piece(index=0, id="a", name="bash", arguments="}"),
        piece(index=0, id="", name=None),
    )
    assert reply.calls == [call(1, "a", "bash", "{}")]


def test_whole_calls_that_all_have_the_first_index_are_told_apart_by_their_ids() -> None:
    reply = whole(
        assembler(),
        piece(index=0, id="a", name="read", arguments="{}"),
        piece(index=0, id="b", name="list", arguments="{"),
        piece(index=0, id="b", arguments="}"),
    )
    assert reply.calls == [call(1, "a", "read", "{}"), call(2, "b", "list", "{}")]


def test_pieces_without_an_index_go_to_the_last_call_and_an_id_opens_the_next() -> None:
    reply = whole(
        assembler(),
        piece(name="read", arguments="{"),
        piece(arguments="}"),
        piece(id="b", name="list", arguments="{}"),
    )
    assert reply.calls == [call(1, "000000003", "read", "{}"), call(2, "b", "list", "{}")]


def test_arguments_that_come_as_an_object_are_written_as_text() -> None:
    reply = whole(assembler(), piece(index=0, id="a", name="read", arguments={"path": "x"}))
    assert reply.calls == [call(1, "a", "read", '{"path":"x"}')]


def test_a_call_without_a_function_is_a_call_without_a_name() -> None:
    data = chunk({"tool_calls": [{"index": 0, "id": "a"}]})
    assert whole(assembler(), data).calls == [call(1, "a", "", "")]


def test_a_missing_or_repeated_server_id_becomes_nine_alphanumerics() -> None:
    reply = whole(
        assembler("used"),
        piece(index=0, name="read", arguments="{}"),
        piece(index=1, id="used", name="read", arguments="{}"),
        piece(index=2, id="fresh", name="read", arguments="{}"),
    )
    ids = [one.server_id for one in reply.calls]
    assert ids[2] == "fresh"
    assert all(len(one) == 9 and one.isalnum() for one in ids[:2])


def test_calls_beyond_the_bound_are_left_out() -> None:
    one = assembler()
    for index in range(MAX_CALLS + 3):
        one.feed(piece(index=index, id=f"s{index}", name="read", arguments="{}"))
    assert [made.server_id for made in one.reply().calls] == [f"s{i}" for i in range(MAX_CALLS)]


def test_how_much_of_the_prompt_was_read_is_told_until_the_reply_begins() -> None:
    one = assembler()
    read = b'{"choices":[],"prompt_progress":{"total":90,"cache":0,"processed":32,"time_ms":1}}'
    assert one.feed(read) == [Progress(32, 90)]
    assert not one.has_output
    one.feed(msgspec.json.encode({"choices": [{"delta": {"content": "Hi"}}]}))
    assert one.feed(read) == []


def test_why_a_reply_ended_is_known_once_it_was_said() -> None:
    one = assembler()
    assert one.finish == ""
    one.feed(msgspec.json.encode({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    assert one.finish == "stop"
    assert one.reply() is one.reply()
