"""The hub's messages as inputs."""

from typing import Any

import pytest

from lembasd.protocol import events, jsonrpc
from lembasd.protocol.lembas import AvailableCommand
from lembasd.tui.core import cards, incoming


def read(method: str, **params: Any) -> Any:
    message = jsonrpc.notification(method, {"sessionId": "s", **params})
    return incoming.read(jsonrpc.peek(message))


def update(kind: str, **fields: Any) -> Any:
    return read("session/update", update={"sessionUpdate": kind, **fields})


def test_an_event_is_an_input() -> None:
    text = {"type": "text", "text": "a", "messageId": "m"}
    assert read("_lembas/event", event=text) == incoming.EventCame(events.Text("a", "m"))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("agent_message_chunk", {"content": {"type": "text", "text": "a"}}),
        ("tool_call", {"toolCallId": "c"}),
        ("current_mode_update", {"currentModeId": "edit"}),
        ("tool_call_update", {"toolCallId": "c", "status": "completed", "content": []}),
        ("tool_call_update", {"toolCallId": "c", "status": "in_progress", "content": []}),
        ("plan", {"entries": 3}),
    ],
)
def test_what_comes_as_an_event_too_or_is_not_known_is_passed_over(
    kind: str, fields: dict[str, Any]
) -> None:
    assert update(kind, **fields) is None


def test_a_running_calls_output_commands_and_the_plan_come_as_updates() -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "so far"}}]
    assert update(
        "tool_call_update", toolCallId="c", status="in_progress", content=content
    ) == incoming.OutputCame("c", "so far")
    commands = [{"name": "review", "description": "d"}]
    assert update("available_commands_update", availableCommands=commands) == incoming.CommandsCame(
        [AvailableCommand("review", "d")]
    )
    entries = [{"content": "a", "priority": "medium", "status": "completed"}]
    assert update("plan", entries=entries) == incoming.PlanCame((("a", "completed"),))


def test_what_befalls_a_session_is_an_input() -> None:
    by = {"lembas": {"by": "instance"}}
    settled = read("_lembas/permission/settled", toolCallId="c", _meta=by)
    assert settled == incoming.Settled("c", "instance")
    nobody = read("_lembas/permission/settled", toolCallId="c", _meta={"lembas": {"by": None}})
    assert nobody == incoming.Settled("c")
    queued = read("_hub/queue", queued=[{"turnId": "t", "text": "later"}])
    assert queued == incoming.QueueCame((("t", "later"),))
    assert read("_lembas/session/deleted") == incoming.Deleted()
    assert read("_hub/gap", since="1:2") == incoming.GapCame()


def test_other_notifications_and_events_of_a_later_build_say_nothing() -> None:
    assert read("_lembas/terminal/output") is None
    assert read("_lembas/event", event={"type": "of a later build"}) is None


def test_a_card_is_an_input_and_any_other_request_is_refused() -> None:
    params = {"sessionId": "s", "toolCallId": "p", "path": "a", "text": "b"}
    message = jsonrpc.peek(jsonrpc.request("k", cards.PLAN, params))
    found = incoming.read(message)
    assert isinstance(found, incoming.CardCame)
    assert (found.card.key, found.card.call_id) == (b'"k"', "p")
    for method, given in ((cards.PLAN, {}), ("_lembas/show", params)):
        request = jsonrpc.peek(jsonrpc.request("k", method, given))
        assert incoming.read(request) == incoming.Unreadable(b'"k"', method)


def test_a_message_that_is_odd_is_passed_over() -> None:
    assert read("_lembas/permission/settled") is None
