"""Summing a conversation up."""

from typing import Any

import pytest

from lembasd.engine.native.core.compaction import KEPT_MESSAGES, MIN_CHARS, asked, message
from lembasd.engine.native.core.context import Conversation
from lembasd.harness.loader import LOOP
from lembasd.store.records import (
    Assistant,
    Call,
    Compacted,
    Learned,
    Seen,
    SystemPrompt,
    ToolResult,
    TurnAccepted,
    TurnStarted,
)

TEXTS = LOOP.compaction
SYSTEM = {"role": "system", "content": "s"}
ASK = {"role": "user", "content": TEXTS.ask}
LONG = "x" * MIN_CHARS


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def step(number: int, output: str = LONG) -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}"}]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def test_the_first_way_is_the_next_turn_of_the_same_conversation() -> None:
    messages = [SYSTEM, user("go"), *step(1)]
    assert asked(messages, 0, TEXTS) == [*messages, ASK]


def test_after_a_user_s_message_a_word_of_the_model_s_stands_before_the_question() -> None:
    messages = [SYSTEM, user("go")]
    between = {"role": "assistant", "content": TEXTS.left_out}
    assert asked(messages, 0, TEXTS) == [*messages, between, ASK]


def test_the_second_way_leaves_out_long_old_results_alone() -> None:
    recent = [one for number in range(KEPT_MESSAGES // 2) for one in step(10 + number)]
    short = step(2, "short")
    messages = [SYSTEM, user("go"), *step(1), *short, *recent]
    old = [step(1)[0], {**step(1)[1], "content": TEXTS.left_out}]
    assert asked(messages, 1, TEXTS) == [SYSTEM, user("go"), *old, *short, *recent, ASK]


def test_the_last_way_begins_with_a_user_s_message() -> None:
    steps = [one for number in range(9) for one in step(number)]
    late = [SYSTEM, user("go"), *steps, user("and?"), {"role": "assistant", "content": "so"}]
    assert asked(late, 2, TEXTS) == [SYSTEM, user("and?"), late[-1], ASK]
    early = asked([SYSTEM, user("go"), *steps], 2, TEXTS)
    assert [one["role"] for one in early[:3]] == ["system", "user", "assistant"]
    assert asked([SYSTEM, *steps], 2, TEXTS) == [SYSTEM, ASK]


@pytest.mark.parametrize("task", ["", "fix {{it}}"])
def test_what_stands_for_the_conversation_says_what_was_read_and_is_asked(task: str) -> None:
    said = message(" all of {{it}} ", task, [("a.py", 1, 20, "abcd")] if task else [], TEXTS)
    assert "<summary>\nall of {{it}}\n</summary>" in said
    assert ("- a.py 1-20 abcd" in said, "fix {{it}}" in said) == (bool(task), bool(task))


def test_a_conversation_goes_on_from_its_summary_and_reads_count_anew() -> None:
    call = Call(id="c1", server_id="s1", name="read", arguments="{}", args={})
    seen = Seen("a", "abcd", 1, 2)
    conversation = Conversation(
        [
            SystemPrompt(text="s"),
            TurnAccepted(turn_id="t", text="go"),
            TurnStarted(turn_id="t"),
            Assistant(turn_id="t", message_id="m", model="x", calls=[call]),
            ToolResult(call_id="c1", result_id="#0001", output="1\n2", seen=seen),
            Learned(window=4096),
            Learned(fact="no_effort"),
        ]
    )
    assert not conversation.is_empty
    assert (conversation.window, conversation.facts) == (4096, {"no_effort"})
    reads = conversation.shown.table()
    assert reads == [("a", 1, 2, "abcd")]
    conversation.apply(Compacted(summary="so far", task="go", reads=reads))
    said = user(message("so far", "go", reads, TEXTS))
    assert conversation.messages() == [SYSTEM, said]
    assert conversation.shown.table() == []
