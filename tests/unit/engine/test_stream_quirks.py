"""What real servers send, as bytes, by the number of the quirk (docs/servers.md)."""

import itertools
from typing import Any

import msgspec
import pytest

from lembasd.engine.native.core.reply import Reply, ReplyAssembler, StreamError, Usage
from lembasd.engine.native.core.sse import EventStream

OFFERED = ("bash", "read", "read_file", "list")


def played(stream: bytes, *, offered: tuple[str, ...] = OFFERED, thinks: bool = False) -> Reply:
    """The reply that a whole stream makes, whatever pieces it is read in."""
    replies = []
    for size in (1, 7, len(stream)):
        numbers = itertools.count(1)
        one = ReplyAssembler(lambda: f"call_{next(numbers):016x}", (), offered, thinks=thinks)  # noqa: B023 - used at once
        events = EventStream()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        for data in [*(event for part in pieces for event in events.feed(part)), *events.end()]:
            news = one.feed(data)
            assert not isinstance(news, StreamError), news
        one.end()
        replies.append(one.reply())
    assert replies[0] == replies[1] == replies[2]
    return replies[0]


def sse(*chunks: Any, done: bool = True) -> bytes:
    texts = [
        b"data: " + (one if isinstance(one, bytes) else msgspec.json.encode(one)) for one in chunks
    ]
    return b"\n\n".join([*texts, *([b"data: [DONE]"] if done else [])]) + b"\n\n"


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def part(*parts: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(parts))


def piece(name: Any = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """One piece of a call; what is left out is not in it."""
    function = {"name": name, "arguments": arguments}
    kept = {key: value for key, value in function.items() if value is not None}
    return {**fields, "function": kept}


def calls(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in reply.calls]


READ_BASH = [("read", {"path": "a"}), ("bash", {"command": "ls"})]


@pytest.mark.parametrize(
    ("quirk", "stream"),
    [
        (
            "Q1 no index, an id opens the next call",
            sse(
                part(piece("read", '{"path":', id="a")),
                part(piece(arguments='"a"}')),
                part(piece("bash", '{"command":"ls"}', id="b")),
            ),
        ),
        (
            "Q1 neither index nor id, a name opens the next call",
            sse(part(piece("read", '{"path":"a"}')), part(piece("bash", '{"command":"ls"}'))),
        ),
        (
            "Q2 every call has index 0",
            sse(
                part(piece("read", '{"path":"a"}', index=0, id="a")),
                part(piece("bash", '{"command":', index=0, id="b")),
                part(piece(arguments='"ls"}', index=0)),
            ),
        ),
        (
            "Q2 every call has index 0 and none an id",
            sse(
                part(piece("read", '{"path":"a"}', index=0)),
                part(piece("bash", '{"command":"ls"}', index=0)),
            ),
        ),
        (
            "Q3 one piece a chunk, indexes as they should be",
            sse(
                part(piece("read", "", index=0, id="a")),
                part(piece("bash", "", index=1, id="b")),
                part(piece(arguments='{"path":"a"}', index=0)),
                part(piece(arguments='{"command":"ls"}', index=1)),
            ),
        ),
        (
            "Q4 arguments before the name, no index",
            sse(
                part(piece(arguments='{"path":')),
                part(piece("read", '"a"}')),
                part(piece("bash", '{"command":"ls"}')),
            ),
        ),
        (
            "Q5 the name in each piece",
            sse(
                part(piece("read", '{"path":', index=0, id="a")),
                part(piece("read", '"a"}', index=0, id="a")),
                part(piece("bash", '{"command":', index=1, id="b")),
                part(piece("bash", '"ls"}', index=1, id="b")),
            ),
        ),
        (
            "Q6 the name in pieces",
            sse(
                part(piece("re", index=0, id="a")),
                part(piece("ad", '{"path":"a"}', index=0)),
                part(piece("ba", index=1, id="b")),
                part(piece("sh", '{"command":"ls"}', index=1)),
            ),
        ),
        (
            "Q7 arguments whole so far in each piece",
            sse(
                part(piece("read", '{"pa', index=0, id="a")),
                part(piece(arguments='{"path":"', index=0)),
                part(piece(arguments='{"path":"a"}', index=0)),
                part(piece(arguments='{"path":"a"}', index=0)),
                part(piece("bash", '{"command":"ls"}', index=1, id="b")),
            ),
        ),
        (
            "Q8 one index twice in a chunk",
            sse(
                part(
                    piece("read", '{"path":', index=0, id="a"),
                    piece(arguments='"a"}', index=0),
                    piece("bash", '{"command":"ls"}', index=1, id="b"),
                )
            ),
        ),
        (
            "Q9 arguments once more at the end",
            sse(
                part(piece("read", '{"path":', index=0, id="a")),
                part(piece(arguments='"a"}', index=0)),
                part(piece(arguments='{"path":"a"}', index=0)),
                part(piece("bash", '{"command":"ls"}', index=1, id="b")),
            ),
        ),
        (
            "Q10 null and empty fields in later pieces",
            sse(
                part(piece("read", '{"path":', index=0, id="a", type="function")),
                part(
                    {
                        "index": 0,
                        "id": None,
                        "type": None,
                        "function": {"name": None, "arguments": '"a"}'},
                    }
                ),
                part(
                    {
                        "index": 1,
                        "id": "b",
                        "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                    }
                ),
                part({"index": 1, "id": "", "function": {"name": "", "arguments": ""}}),
            ),
        ),
        (
            "Q14 arguments as an object",
            sse(
                part(piece("read", {"path": "a"}, index=0, id="a")),
                part(piece("bash", {"command": "ls"}, index=1, id="b")),
            ),
        ),
        (
            "Q14 one call that is no list",
            sse(
                delta(tool_calls=piece("read", '{"path":"a"}', index=0, id="a")),
                delta(tool_calls=piece("bash", '{"command":"ls"}', index=1, id="b")),
            ),
        ),
        (
            "Q22 calls as text in tags",
            sse(
                delta(
                    content='<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n'
                ),
                delta(
                    content='<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>'
                ),
            ),
        ),
        (
            "Q22 calls as functions with parameters",
            sse(
                delta(
                    content="<tool_call><function=read><parameter=path>\na\n</parameter></function></tool_call>"
                ),
                delta(content="<function=bash><parameter=command>ls</parameter></function>"),
            )
            .replace(b"<tool_call>", b"")
            .replace(b"</tool_call>", b""),
        ),
        (
            "Q23 a chat format's token in a name",
            sse(
                part(piece("read<|channel|>commentary", '{"path":"a"}', index=0, id="a")),
                part(piece("bash", '{"command":"ls"}', index=1, id="b")),
            ),
        ),
        (
            "Q63 calls in a call",
            sse(
                part(
                    piece(
                        "multi_tool_use.parallel",
                        msgspec.json.encode(
                            {
                                "tool_uses": [
                                    {
                                        "recipient_name": "functions.read",
                                        "parameters": {"path": "a"},
                                    },
                                    {
                                        "recipient_name": "functions.bash",
                                        "parameters": {"command": "ls"},
                                    },
                                ]
                            }
                        ).decode(),
                        index=0,
                        id="a",
                    )
                )
            ),
        ),
    ],
)
def test_two_calls_are_put_together(quirk: str, stream: bytes) -> None:
    assert calls(played(stream)) == READ_BASH, quirk


def test_q9_different_arguments_in_a_row_are_calls_of_their_own() -> None:
    reply = played(sse(part(piece("read", '{"path":"a"}{"path":"b"}', index=0, id="a"))))
    assert calls(reply) == [("read", {"path": "a"}), ("read", {"path": "b"})]
    assert [call.server_id == "a" for call in reply.calls] == [True, False]


def test_q11_an_id_that_was_used_in_an_earlier_turn_is_replaced() -> None:
    one = ReplyAssembler(lambda: "call_0123456789abcdef", {"call_0"}, OFFERED)
    one.feed(msgspec.json.encode(part(piece("read", "{}", index=0, id="call_0"))))
    assert [call.server_id for call in one.reply().calls] == ["789abcdef"]


def test_q12_q13_a_missing_id_is_nine_alphanumerics() -> None:
    (call,) = played(sse(part(piece("read", "{}", index=0)))).calls
    assert (len(call.server_id), call.server_id.isalnum()) == (9, True)


@pytest.mark.parametrize("arguments", ["", None, "null", {}])
def test_q15_no_arguments_are_an_empty_object(arguments: Any) -> None:
    given = {"index": 0, "id": "a", "function": {"name": "list", "arguments": arguments}}
    assert calls(played(sse(part(given)))) == [("list", {})]


def test_q16_q17_what_a_model_spells_wrong_is_mended_and_goes_back_as_json() -> None:
    (call,) = played(
        sse(part(piece("bash", '{"command":"grep \\d a\nb",}', index=0, id="a")))
    ).calls
    assert call.args == {"command": "grep \\d a\nb"}
    assert msgspec.json.decode(call.arguments) == call.args


@pytest.mark.parametrize("finish", ["tool_calls", "stop", ""])
def test_q18_a_call_that_is_cut_off_is_known_whatever_the_server_says(finish: str) -> None:
    stream = sse(
        part(piece("bash", '{"command":"rm -rf /home/me/pro', index=0, id="a")),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    )
    reply = played(stream)
    assert (calls(reply), reply.calls[0].cut) == ([("bash", None)], True)


@pytest.mark.parametrize("finish", ["stop", "end_turn", "", None, "tool_calls", "function_call"])
def test_q20_calls_count_whatever_the_reason_is(finish: str | None) -> None:
    stream = sse(
        part(piece("list", "{}", index=0, id="a")),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    )
    assert (calls(played(stream)), played(stream).is_cut) == ([("list", {})], False)


@pytest.mark.parametrize(
    "text",
    [
        'Like this: <tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>',
        '```\n<tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>\n```',
        '<tool_call>{"name":"format_disk","arguments":{}}</tool_call>',
        '<tool_call>{"name":"read","arguments":{"path":"a"',
        '{"name":"read","arguments":{"path":"a"},"and":1,"more":2}',
        '{"name":"Ann"}',
        "<function=bash>ls</function>",
    ],
)
def test_q22_a_text_that_only_shows_a_call_stays_text(text: str) -> None:
    reply = played(sse(delta(content=text)))
    assert (reply.text, reply.calls, reply.reread) == (text, [], False)


def test_q21_q22_a_call_that_was_text_takes_the_text_back() -> None:
    text = '{"name": "read", "arguments": {"path": "a"}}'
    reply = played(sse(delta(content=text)))
    assert (reply.text, calls(reply), reply.reread) == ("", [("read", {"path": "a"})], True)


@pytest.mark.parametrize(
    "odd",
    [
        b'{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}',  # Q24
        b'{"choices":[{"index":0,"content_filter_offsets":{}}]}',  # Q25
        b'{"choices":[],"usage":{"prompt_tokens":1}}',  # Q26
        b'{"usage":{"prompt_tokens":1}}',  # Q26
        b": keepalive",  # Q32
        b"",  # Q32
        b'{"error":null,"choices":[]}',
        b'{"choices":[{"index":0,"delta":null}]}',
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}',
    ],
)
def test_q24_to_q32_what_says_nothing_changes_nothing(odd: bytes) -> None:
    assert played(sse(odd, delta(content="Hi"), odd)).text == "Hi"


def test_q27_the_last_usage_counts() -> None:
    stream = sse(
        *(
            {**delta(content="a"), "usage": {"prompt_tokens": 9, "completion_tokens": n}}
            for n in (1, 2)
        )
    )
    assert played(stream).usage == Usage(9, 2)


def test_q31_comments_of_the_stream_are_passed_over() -> None:
    stream = b": OPENROUTER PROCESSING\n\n:\n\n" + sse(delta(content="Hi"))
    assert played(stream).text == "Hi"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"error":{"message":"overloaded","code":502},"choices":[]}', "overloaded"),  # Q34
        (
            b'{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}',
            "the reply ended with an error",
        ),
        (b'{"choices":[{"index":0,"error":{"message":"upstream"}}]}', "upstream"),
        (b'{"error":"n_keep >= n_ctx"}', "n_keep >= n_ctx"),
        (b"Internal error: out of memory", "Internal error: out of memory"),  # Q35
    ],
)
def test_q34_q35_an_error_in_the_stream_is_one(data: bytes, words: str) -> None:
    news = ReplyAssembler(lambda: "call_1", (), OFFERED).feed(data)
    assert isinstance(news, StreamError)
    assert news.message == words


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_q38_reasoning_is_read_under_either_name(key: str) -> None:
    reply = played(sse(delta(**{key: "hm"}), delta(content="Hi")))
    assert (reply.reasoning, reply.reasoning_key, reply.text) == ("hm", key, "Hi")


@pytest.mark.parametrize(
    ("text", "reasoning", "said"),
    [
        ("<think>hm</think>\n\nHi", "hm", "Hi"),
        ("\n<think>\nhm\n</think>Hi", "\nhm\n", "Hi"),
        ("<think></think>Hi", "", "Hi"),
        ("<think>never closed", "never closed", ""),  # Q41
        ("use <think> here", "", "use <think> here"),
        ("```\n<think>a</think>\n```", "", "```\n<think>a</think>\n```"),
        ("<thinner> Hi", "", "<thinner> Hi"),
        ("<thi", "", "<thi"),
        ("hm</think>\nHi", "hm", "Hi"),  # Q40
        ("a < b", "", "a < b"),
    ],
)
def test_q40_q41_reasoning_in_tags_is_reasoning_at_the_start_only(
    text: str, reasoning: str, said: str
) -> None:
    reply = played(sse(delta(content=text)))
    assert (reply.reasoning, reply.text) == (reasoning, said)


def test_q40_a_template_that_opens_the_tag_is_known_from_then_on() -> None:
    assert played(sse(delta(content="hm</think>Hi"))).reread
    reply = played(sse(delta(content="hm</think>Hi")), thinks=True)
    assert (reply.reasoning, reply.text, reply.reread) == ("hm", "Hi", False)


def test_q42_what_a_server_adds_to_a_call_is_kept() -> None:
    signed = {
        **piece("list", "{}", index=0, id="a"),
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    signed["function"]["strict"] = True
    (call,) = played(sse(part(signed))).calls
    assert call.extra == {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    assert call.function_extra == {"strict": True}


@pytest.mark.parametrize(
    ("more", "cached"),
    [
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}}}, 5),
        ({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 6}}, 6),
        ({"usage": {"prompt_tokens": 9}, "timings": {"cache_n": 7}}, 7),
    ],
)
def test_q59_cached_tokens_are_read_in_each_place_and_never_added(
    more: dict[str, Any], cached: int
) -> None:
    assert played(sse({"choices": [], **more})).usage == Usage(9, 0, cached)


def test_q60_reasoning_alone_is_an_empty_reply_that_thought() -> None:
    reply = played(sse(delta(reasoning_content="hm")))
    assert (reply.is_empty, reply.reasoning) == (True, "hm")


def test_q62_a_million_pieces_of_a_call_take_no_longer_each() -> None:
    one = ReplyAssembler(lambda: "call_1", (), OFFERED)
    one.feed(msgspec.json.encode(part(piece("bash", '{"command":"', index=0, id="a"))))
    data = msgspec.json.encode(part(piece(arguments="x" * 20, index=0)))
    for _ in range(40_000):
        one.feed(data)
    one.feed(msgspec.json.encode(part(piece(arguments='"}', index=0))))
    (call,) = one.reply().calls
    assert call.args == {"command": "x" * 800_000}
