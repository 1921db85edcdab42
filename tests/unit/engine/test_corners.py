"""Cases that real servers have not shown yet, and that must hold all the same."""

import itertools
from typing import Any

import msgspec
import pytest

from lembasd.engine.native.core.compaction import KEPT_MESSAGES, asked
from lembasd.engine.native.core.reply import Reply, ReplyAssembler, StreamError
from lembasd.engine.native.core.server_facts import shaped
from lembasd.engine.native.core.text_calls import TextCall, find, without_tokens
from lembasd.harness.loader import LOOP
from lembasd.harness.tool import Narrow, Tool, converted, narrowed, variables_in

OFFERED = ("bash", "read")


def played(*deltas: dict[str, Any], thinks: bool = False) -> Reply:
    numbers = itertools.count(1)
    one = ReplyAssembler(lambda: f"call_{next(numbers):016x}", (), OFFERED, thinks=thinks)
    for delta in deltas:
        news = one.feed(msgspec.json.encode({"choices": [{"index": 0, "delta": delta}]}))
        assert not isinstance(news, StreamError)
    return one.reply()


def piece(**part: Any) -> dict[str, Any]:
    function = {key: part.pop(key) for key in ("name", "arguments") if key in part}
    return {"tool_calls": [{**part, "function": function}]}


def test_an_id_that_comes_late_and_without_an_index_is_the_open_calls() -> None:
    (call,) = played(
        piece(name="bash", arguments='{"command":'),
        piece(id="a", arguments='"ls"}'),
        piece(id="a"),
    ).calls
    assert (call.server_id, call.args) == ("a", {"command": "ls"})


def test_arguments_after_a_whole_call_without_a_name_are_its_own_noise() -> None:
    (call,) = played(piece(name="read", arguments="{}"), piece(arguments="{}")).calls
    assert call.args == {}


def test_a_model_that_did_not_think_this_time_said_its_text() -> None:
    reply = played({"content": "Hello"}, thinks=True)
    assert (reply.text, reply.reasoning, reply.reread) == ("Hello", "", True)


def test_parallel_calls_that_are_none_are_left_out() -> None:
    uses = {"tool_uses": [7, {"recipient_name": 3}, {"recipient_name": "functions.read"}]}
    one = piece(name="multi_tool_use.parallel", arguments=msgspec.json.encode(uses).decode())
    assert [(call.name, call.args) for call in played(one).calls] == [("read", {})]
    none = piece(name="multi_tool_use.parallel", arguments='{"tool_uses": 7}')
    assert played(none).calls == []


@pytest.mark.parametrize("content", [7, {"text": "x"}, [7, {"text": 3}], None])
def test_content_that_is_no_text_says_nothing(content: Any) -> None:
    assert played({"content": content}).text == ""


def test_a_value_of_a_written_call_keeps_its_kind() -> None:
    text = (
        "<function=bash><parameter=command>[1]</parameter><parameter=n>7</parameter>"
        '<parameter=t>"7"</parameter><parameter=x>null</parameter><parameter=y>a b</parameter></function>'
    )
    (call,) = find(text, OFFERED)
    assert msgspec.json.decode(call.arguments) == {
        "command": [1],
        "n": 7,
        "t": '"7"',
        "x": "null",
        "y": "a b",
    }


def test_a_written_call_of_no_parameters() -> None:
    assert find("<function=bash></function>", OFFERED) == [TextCall("bash", "{}")]
    assert find('{"name": "bash", "parameters": {}}', OFFERED) == [TextCall("bash", "{}")]
    assert find('{"name": "bash", "arguments": 7}', OFFERED) == []


def test_tokens_of_a_chat_format_are_cut_out_of_a_text() -> None:
    assert without_tokens("<|channel|>final<|message|>Hi") == "finalHi"
    assert without_tokens("a <| b") == "a <| b"


def test_a_system_prompt_without_a_user_is_left_out_where_there_may_be_none() -> None:
    body = {"messages": [{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}]}
    assert shaped(body, frozenset({"no_system"}))["messages"] == body["messages"][1:]


def test_a_schema_that_is_none_stays_as_it_is() -> None:
    parameters = {"type": "object", "properties": {"a": True}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    body = {"messages": [], "tools": [tool]}
    assert shaped(body, frozenset({"plain_schemas"}))["tools"] == [tool]


def test_the_last_way_to_ask_for_a_summary_begins_at_a_prompt_however_long_ago() -> None:
    user = {"role": "user", "content": "go"}
    steps = [{"role": "assistant", "content": str(n)} for n in range(KEPT_MESSAGES + 3)]
    system = {"role": "system", "content": "s"}
    said = asked([system, user, *steps], 2, LOOP.compaction)
    assert said[:2] == [system, user]
    nobody = asked([system, *steps], 2, LOOP.compaction)
    assert nobody[1:] == [{"role": "user", "content": LOOP.compaction.ask}]


def test_a_path_through_what_is_not_there_cannot_be_narrowed() -> None:
    with pytest.raises(ValueError, match=r"there is no a\.b"):
        narrowed({"type": "object", "properties": {}}, Narrow(drop=["a.b"]))


def test_variables_are_found_wherever_they_stand() -> None:
    value = {"a": "{{x}}", "b": ["{{y}}", 7], "c": {}}
    assert (variables_in(value), variables_in([])) == ({"x", "y"}, set())


def test_a_present_name_of_an_argument_wins_over_a_former_one() -> None:
    tool = Tool(
        name="t",
        scope="shared",
        sessions="both",
        risk="read",
        exclusive=False,
        block="read",
        purpose=False,
        description="",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}},
        renamed={"file": "path"},
    )
    assert converted(tool, {"file": "old", "path": "new", "x": 1}) == {"path": "new", "x": 1}
    assert converted(tool, {"file": "old"}) == {"path": "old"}


def test_two_calls_in_one_block_of_text_are_none() -> None:
    two = '<tool_call>{"name":"read","arguments":{}}{"name":"read","arguments":{"a":1}}</tool_call>'
    assert find(two, OFFERED) == []


def test_a_closing_tag_that_comes_in_pieces_ends_the_reasoning() -> None:
    reply = played({"content": "<think>so </thi"}, {"content": "nk>Hello"})
    assert (reply.reasoning, reply.text) == ("so ", "Hello")
