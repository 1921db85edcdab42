"""The demo model: the last user text chooses the script, the tool results the step."""

from typing import Any

import msgspec
import pytest

from lembasd.instance.core.demo_model import (
    MAX_COUNT,
    MAX_PAUSE_S,
    PAUSE_S,
    SLOW_PAUSE_S,
    TAIL_CHARS,
    Call,
    Function,
    Message,
    Piece,
    Reply,
    Request,
    Tool,
    reply,
)

ALL = [Tool(Function(name)) for name in ("read", "write", "edit", "list", "bash")]


def said(text: str, *results: str, tools: list[Tool] = ALL) -> Reply:
    after = [Message("tool", result) for result in results]
    return reply(Request([Message("user", text), *after], tools))


def call(answer: Reply) -> tuple[str, dict[str, Any]] | None:
    one = answer.call
    return (one.name, msgspec.json.decode(one.arguments)) if one is not None else None


def test_a_plain_text_is_echoed_word_by_word_by_what_calls_itself_a_demo() -> None:
    assert said("hi there") == Reply(
        [
            Piece(word, PAUSE_S)
            for word in ("You ", "said: ", "hi ", "there ", "(demo ", "model, ", "no ")
        ]
        + [Piece("language ", PAUSE_S), Piece("model)", PAUSE_S)]
    )


def test_a_fix_reads_edits_and_runs_then_says_how_it_went() -> None:
    results = ["text", "edited", "Hello, world\n"]
    steps = [said("fix greet.py", *results[:count]) for count in range(4)]
    assert [call(step) for step in steps] == [
        ("read", {"path": "greet.py"}),
        ("edit", {"path": "greet.py", "old": "Helo", "new": "Hello"}),
        ("bash", {"command": "python3 greet.py"}),
        None,
    ]
    assert steps[3].text.endswith("The last tool said:\nHello, world")
    assert "demo model" in steps[3].text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run: echo 1 2", ("bash", {"command": "echo 1 2"})),
        ("read: a.txt", ("read", {"path": "a.txt"})),
        ("write: a.txt one\ntwo", ("write", {"path": "a.txt", "content": "one\ntwo"})),
        ("list: src", ("list", {"path": "src"})),
        ("please\nlist: .\nthanks", ("list", {"path": "."})),
    ],
)
def test_each_script_calls_its_tool_and_then_sums_up(text: str, expected: object) -> None:
    assert call(said(text)) == expected
    assert call(said(text, "done")) is None


def test_a_summary_holds_only_the_end_of_a_long_output() -> None:
    answer = said("run: cat", "x" * 1000 + "END")
    assert answer.text.endswith("x" * (TAIL_CHARS - 3) + "END")
    assert "x" * TAIL_CHARS not in answer.text


def test_a_slow_count_comes_number_by_number() -> None:
    assert said("Please count to 3 slowly.") == Reply(
        [
            Piece("(demo model, no language model) ", 0.0),
            Piece("1 ", SLOW_PAUSE_S),
            Piece("2 ", SLOW_PAUSE_S),
            Piece("3 ", SLOW_PAUSE_S),
        ]
    )


@pytest.mark.parametrize(
    ("text", "pause_s"),
    [("count to 1 slowly, every 20 ms", 0.02), ("count to 1 slowly every 99999 ms", MAX_PAUSE_S)],
)
def test_a_count_may_say_its_pace_up_to_a_bound(text: str, pause_s: float) -> None:
    assert said(text).pieces[1:] == [Piece("1 ", pause_s)]


def test_a_count_has_a_bound() -> None:
    assert len(said("count to 999999999 slowly").pieces) == 1 + MAX_COUNT


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    answer = said("run: ls", tools=[Tool(Function("read"))])
    assert answer.call is None
    assert (
        answer.text == "I need the tool bash, which is not offered (demo model, no language model)."
    )


def test_only_the_results_since_the_last_user_message_count() -> None:
    messages = [
        Message("user", "run: ls"),
        Message("tool", "a"),
        Message("assistant", "done"),
        Message("user", [{"type": "text", "text": "run: pwd"}, {"type": "image_url"}]),
    ]
    assert reply(Request(messages, ALL)).call == Call("call_demo_2", "bash", '{"command":"pwd"}')


def test_a_request_without_a_user_message_is_answered_all_the_same() -> None:
    answer = reply(Request([Message("system", None), Message("tool", None)], ALL))
    assert answer.text == "You said:  (demo model, no language model)"
