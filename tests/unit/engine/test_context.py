"""From a session's records to the messages a model is sent."""

from typing import Any

from lembasd.engine.native.core.context import (
    DID_NOT_RUN,
    OUTCOME_UNKNOWN,
    Conversation,
    capped,
)
from lembasd.harness.loader import ContextLoop
from lembasd.protocol.context import Context, Personalization
from lembasd.store.records import (
    AccountPersonalization,
    AnyRecord,
    Assistant,
    Call,
    ContextSet,
    Image,
    Learned,
    ModeSet,
    Note,
    OfferedTool,
    Prompted,
    Seen,
    SessionNote,
    SettingSet,
    Steered,
    SystemPrompt,
    ToolResult,
    ToolsOffered,
    ToolStarted,
    TurnAccepted,
    TurnStarted,
)

LOOP = ContextLoop(max_lines=6, max_chars=60, kept_lines=2, kept_chars=20)


def turn(number: int) -> list[AnyRecord]:
    turn_id = f"t{number}"
    return [TurnAccepted(turn_id=turn_id, text=f"do {number}"), TurnStarted(turn_id=turn_id)]


def said(text: str = "", *calls: Call, reasoning: str = "", partial: bool = False) -> Assistant:
    return Assistant(
        turn_id="t1",
        message_id="m",
        model="x",
        text=text,
        reasoning=reasoning,
        calls=list(calls),
        partial=partial,
    )


def call(number: int, arguments: str = '{"path": "a"}', *, parsed: bool = True) -> Call:
    return Call(
        id=f"c{number}",
        server_id=f"s{number}",
        name="read",
        arguments=arguments,
        args={"path": "a"} if parsed else None,
    )


def wire(number: int, arguments: str = '{"path": "a"}') -> dict[str, Any]:
    function = {"name": "read", "arguments": arguments}
    return {"id": f"s{number}", "type": "function", "function": function}


def result(number: int) -> ToolResult:
    return ToolResult(call_id=f"c{number}", result_id=f"#000{number}", output=f"out {number}")


def user(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"do {number}"}


def tool(number: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"s{number}", "content": f"out {number}"}


def test_a_session_becomes_its_messages() -> None:
    conversation = Conversation(
        [
            SystemPrompt(text="Be brief.\n"),
            *turn(1),
            said("I look.", call(1)),
            ToolStarted(call_id="c1"),
            result(1),
            ModeSet(mode="auto"),
            said("Done."),
        ]
    )
    assert conversation.messages() == [
        {"role": "system", "content": "Be brief.\n"},
        user(1),
        {"role": "assistant", "content": "I look.", "tool_calls": [wire(1)]},
        tool(1),
        {"role": "assistant", "content": "Done."},
    ]
    assert (conversation.used_server_ids, conversation.results) == ({"s1"}, 1)


def test_reasoning_goes_back_within_its_turn_only() -> None:
    records = [*turn(1), said("", call(1), reasoning="hm"), result(1)]
    conversation = Conversation(records)
    assistant = {"role": "assistant", "content": "", "tool_calls": [wire(1)]}
    assert conversation.messages()[2] == {**assistant, "reasoning_content": "hm"}
    for record in turn(2):
        conversation.apply(record)
    assert conversation.messages()[2] == assistant


def test_a_reply_that_was_cut_off_keeps_its_text_without_its_calls() -> None:
    conversation = Conversation([*turn(1), said("half", call(1), partial=True)])
    assert conversation.messages()[2:] == [{"role": "assistant", "content": "half"}]
    assert conversation.unanswered() == []


def test_a_reply_that_says_nothing_is_not_sent() -> None:
    conversation = Conversation([*turn(1), said(reasoning="hm")])
    assert conversation.messages()[1:] == [user(1)]


def test_calls_without_a_result_are_told_apart_by_whether_they_had_started() -> None:
    conversation = Conversation([*turn(1), said("", call(1), call(2)), ToolStarted(call_id="c1")])
    assert conversation.unanswered() == [("c1", OUTCOME_UNKNOWN), ("c2", DID_NOT_RUN)]


def test_arguments_that_do_not_parse_are_not_sent_back() -> None:
    conversation = Conversation([*turn(1), said("", call(1, "{oops", parsed=False), call(2, " "))])
    message = conversation.messages()[2]
    assert message["tool_calls"] == [wire(1, "{}"), wire(2, "{}")]


def test_a_result_of_no_call_is_counted_and_not_sent() -> None:
    conversation = Conversation([*turn(1), result(9)])
    assert (conversation.messages()[1:], conversation.results) == ([user(1)], 1)


def test_a_short_result_is_sent_whole() -> None:
    assert capped("a\nb\n", LOOP, "#0001") == "a\nb\n"


def test_a_result_of_many_lines_keeps_head_and_tail() -> None:
    text = "".join(f"{number}\n" for number in range(8))
    assert capped(text, LOOP, "#0001") == ("0\n1\n[4 lines elided, full output #0001]\n6\n7\n")


def test_a_note_of_a_turn_stands_in_its_prompt_wherever_its_line_is() -> None:
    first, begun = turn(1)
    note = SessionNote(text="a file changed", turn_id="t1")
    mode = SessionNote(text="the mode is auto")
    live = Conversation([mode, first, note, begun])
    loaded = Conversation([mode, first, begun, note])
    text = "<session-note>the mode is auto</session-note>\n\n<session-note>a file changed</session-note>\n\ndo 1"
    assert live.messages()[1:] == loaded.messages()[1:] == [{"role": "user", "content": text}]


def test_what_is_said_before_a_request_is_one_message_and_after_it_another() -> None:
    records: list[AnyRecord] = [
        *turn(1),
        said(),  # it said nothing, and was asked all the same
        Note(text="go on"),
        Steered(texts=["in French", "short"]),
        said("ok"),
        Steered(texts=["and now?"]),
    ]
    assert Conversation(records).messages()[1:] == [
        {"role": "user", "content": "do 1"},
        {"role": "assistant", "content": "(no reply)"},
        {"role": "user", "content": "go on\n\nin French\n\nshort"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "and now?"},
    ]


def test_the_instruction_files_that_are_known_are_those_of_the_last_note_of_them() -> None:
    conversation = Conversation([SystemPrompt(text="s", instructions={"A": "1"})])
    conversation.apply(SessionNote(text="the mode is auto"))
    assert conversation.instructions == {"A": "1"}
    conversation.apply(SessionNote(text="A is gone", instructions={}))
    assert conversation.instructions == {}


def test_an_error_and_a_part_of_an_output_are_nothing_that_was_seen() -> None:
    error = ToolResult(call_id="c1", result_id="#0001", output="gone", is_error=True)
    part = ToolResult(call_id="c2", result_id="#0002", output="head", full="head and tail")
    conversation = Conversation([*turn(1), said("", call(1), call(2)), error, part])
    assert [
        conversation.shown.stub("read", {"path": "a"}, text, None) for text in ("gone", "head")
    ] == [None, None]


def test_the_tools_of_servers_are_open_until_they_are_fixed_or_a_request_was_made() -> None:
    tool = OfferedTool("mcp__s__t", "s", "t", "A tool.", {"type": "object"}, "execute")
    said = Assistant(turn_id="t1", message_id="m1", model="m", text="hi")
    assert Conversation([SystemPrompt(text="be good")]).tools is None
    assert Conversation([ToolsOffered(tools=[tool])]).tools == [tool]
    assert Conversation([ToolsOffered(tools=[tool]), said]).tools == [tool]
    assert Conversation([said]).tools == []


def test_what_was_learnt_of_a_server_is_forgotten_with_its_model() -> None:
    conversation = Conversation([Learned(fact="no_effort"), Learned(window=5000)])
    conversation.apply(SettingSet(key="effort", value="low"))
    assert (conversation.facts, conversation.window) == ({"no_effort"}, 5000)
    conversation.apply(SettingSet(key="model", value="other"))
    assert (conversation.facts, conversation.window) == (set(), 0)


def test_what_the_client_holds_is_known_and_which_of_it_was_told() -> None:
    context = Context(system_prompt="S")
    conversation = Conversation(
        [
            ContextSet(context=context),
            SystemPrompt(text="S", context={"system_prompt": "a"}),
            SessionNote(text="changed", context={"system_prompt": "b"}),
        ]
    )
    assert (conversation.context, conversation.pieces) == (context, {"system_prompt": "b"})


def test_a_message_in_mid_turn_stands_with_the_files_and_images_that_it_names() -> None:
    seen = Seen("a.py", "hash", 1, 3)
    steered = Steered(
        texts=["see @a.py"],
        text="see @a.py, which is here",
        seen=[seen],
        images=[("pic.png", Image("image/png", "1.png"))],
    )
    plain = Steered(texts=["and", "then"])
    answered = Assistant(turn_id="t1", message_id="m1", model="m", text="on it")
    conversation = Conversation([*turn(1), answered, steered])
    said = conversation.messages()[-1]["content"]
    assert said[0] == {"type": "text", "text": "see @a.py, which is here"}
    assert [part["type"] for part in said] == ["text", "text", "image_url"]
    stub = conversation.shown.stub("read", {}, "", seen)
    assert stub == "[unchanged since the person's message, which shows lines 1-3]"
    conversation = Conversation([*turn(1), answered, plain])
    assert conversation.messages()[-1]["content"] == "and\n\nthen"


def test_the_accounts_personalization_is_known_from_where_it_was_asked_for() -> None:
    said = Personalization(instructions="Call me Sam.")
    assert Conversation([SystemPrompt(text="S")]).personalization is None
    assert Conversation([AccountPersonalization(personalization=said)]).personalization == said


def test_a_prompt_that_was_made_into_another_stands_as_that_with_its_files_and_images() -> None:
    seen = Seen("a.py", "hash", 1, 3)
    made = Prompted(
        turn_id="t1",
        text="do 1, with a.py",
        task="do 1",
        seen=[seen],
        images=[("pic.png", Image("image/png", "1.png"))],
    )
    of_another = Prompted(turn_id="t9", text="no")
    conversation = Conversation([*turn(1), of_another, made])
    message = conversation.messages()[-1]
    assert message["role"] == "user"
    assert message["content"][0] == {"type": "text", "text": "do 1, with a.py"}
    assert len(message["content"]) > 1
    assert conversation.task == "do 1"


def test_a_prompt_that_was_an_action_leaves_nothing_in_the_conversation() -> None:
    action = Prompted(turn_id="t2", action=True)
    before = Conversation([*turn(1), said("done")])
    after = Conversation([*turn(1), said("done"), *turn(2), action])
    assert (after.messages(), after.task) == (before.messages(), before.task)
