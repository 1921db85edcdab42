"""Events as messages."""

from typing import Any

import msgspec
import pytest

from lembasd.protocol.events import (
    AnyEvent,
    ModeChanged,
    Notice,
    Reasoning,
    Text,
    ToolCallDelta,
    ToolDenied,
    ToolEnd,
    ToolOutput,
    ToolStart,
)
from lembasd.protocol.lembas import AvailableCommand
from lembasd.worker.core import translate


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


@pytest.mark.parametrize(
    ("event", "update"),
    [
        (
            Text(text="a", messageId="m"),
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}},
        ),
        (
            Reasoning(text="a", messageId="m"),
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "a"}},
        ),
        (
            ToolStart(
                toolCallId="c", name="bash", title="ls", block="shell", args={"command": "ls"}
            ),
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "c",
                "title": "ls",
                "kind": "execute",
                "status": "in_progress",
                "rawInput": {"command": "ls"},
            },
        ),
        (
            ToolEnd(toolCallId="c", resultId="#0001", isError=False, output="o", duration_ms=1),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "completed",
                "content": content("o"),
            },
        ),
        (
            ToolEnd(toolCallId="c", resultId="#0001", isError=True, output="o", duration_ms=1),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "failed",
                "content": content("o"),
            },
        ),
        (
            ToolDenied(toolCallId="c", name="bash", reason="no", by="person"),
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "failed",
                "content": content("no"),
            },
        ),
        (
            ModeChanged(mode="edit"),
            {"sessionUpdate": "current_mode_update", "currentModeId": "edit"},
        ),
        (Notice(level="info", text="n"), None),
        (ToolCallDelta(toolCallId="c", name="bash", arguments="{"), None),
    ],
)
@pytest.mark.spec(
    "update agent_message_chunk",
    "update agent_thought_chunk",
    "update tool_call",
    "update tool_call_update",
    "update current_mode_update",
)
def test_every_event_goes_to_lembas_and_to_all_what_acp_has_a_word_for(
    event: AnyEvent, update: dict[str, Any] | None
) -> None:
    said = translate.messages("ses_1", event)
    assert len(said) == translate.width(event)
    first = msgspec.json.decode(said[0].payload)
    assert (said[0].audience, first["method"]) == ("lembas", "_lembas/event")
    assert first["params"] == {"sessionId": "ses_1", "event": msgspec.to_builtins(event)}
    assert [(one.audience, msgspec.json.decode(one.payload)["params"]) for one in said[1:]] == (
        [] if update is None else [("all", {"sessionId": "ses_1", "update": update})]
    )


def test_what_a_call_says_while_it_runs_is_told_in_acps_words_alone() -> None:
    output = ToolOutput(toolCallId="c", text="so far")
    (said,) = translate.messages("ses_1", output)
    assert translate.width(output) == 1
    assert (said.audience, msgspec.json.decode(said.payload)["params"]["update"]) == (
        "all",
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "status": "in_progress",
            "content": content("so far"),
        },
    )


def test_deltas_of_one_message_have_one_key() -> None:
    assert translate.key_of(Text(text="a", messageId="m")) == ("text", "m")
    assert translate.key_of(Reasoning(text="a", messageId="m")) == ("reasoning", "m")
    call = ToolCallDelta(toolCallId="c", name="bash", arguments="{")
    assert translate.key_of(call) == ("call", "c")
    assert translate.with_text(call, "{}") == ToolCallDelta("c", "bash", "{}")
    assert translate.key_of(Notice(level="info", text="n")) is None


def test_a_sessions_commands_are_told_in_one_message() -> None:
    said = translate.commands_update(
        "ses_1", [AvailableCommand(name="plan", description="Plan it")]
    )
    assert msgspec.json.decode(said) == {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {
            "sessionId": "ses_1",
            "update": {
                "sessionUpdate": "available_commands_update",
                "availableCommands": [{"name": "plan", "description": "Plan it"}],
            },
        },
    }
