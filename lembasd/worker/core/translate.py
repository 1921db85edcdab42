"""What a session says, as messages: `_lembas/event` for LLeMbas, and ACP's `session/update` where ACP has a word."""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import ALL, LEMBAS, LOCAL
from lembasd.protocol.events import (
    AnyEvent,
    ModeChanged,
    Queue,
    Reasoning,
    Text,
    ToolCallDelta,
    ToolDenied,
    ToolEnd,
    ToolOutput,
    ToolStart,
)
from lembasd.protocol.lembas import AvailableCommand, QueueParams

#: ACP's kinds for the names of our tools; any other tool is "other"
_KINDS: Final = {
    "read": "read",
    "list": "search",
    "glob": "search",
    "grep": "search",
    "write": "edit",
    "edit": "edit",
    "multiedit": "edit",
    "apply_patch": "edit",
    "bash": "execute",
    "web_fetch": "fetch",
}
Delta = Text | Reasoning | ToolCallDelta


class Said(Struct, frozen=True):
    """One finished message and whom it concerns: ALL, LEMBAS or LOCAL."""

    audience: str
    payload: bytes


def messages(session_id: str, event: AnyEvent) -> list[Said]:
    """The messages of one event, in the order in which they are sent."""
    if isinstance(event, Queue):
        queue = QueueParams(session_id, event.queued)
        return [Said(LOCAL, jsonrpc.notification("_hub/queue", queue))]
    said = []
    if not isinstance(event, ToolOutput):
        payload = jsonrpc.notification("_lembas/event", {"sessionId": session_id, "event": event})
        said.append(Said(LEMBAS, payload))
    update = session_update(event)
    if update is not None:
        params = {"sessionId": session_id, "update": update}
        said.append(Said(ALL, jsonrpc.notification("session/update", params)))
    return said


def width(event: AnyEvent) -> int:
    """How many messages `messages` makes of it."""
    match event:
        case Text() | Reasoning() | ModeChanged():
            return 2
        case ToolStart() | ToolEnd() | ToolDenied():
            return 2
        case _:
            return 1


def session_update(event: AnyEvent) -> dict[str, Any] | None:
    """ACP's update for an event; None where ACP has no word for it."""
    match event:
        case Text(text=text):
            return {"sessionUpdate": "agent_message_chunk", "content": _text(text)}
        case Reasoning(text=text):
            return {"sessionUpdate": "agent_thought_chunk", "content": _text(text)}
        case ToolStart():
            return {
                "sessionUpdate": "tool_call",
                "toolCallId": event.toolCallId,
                "title": event.title,
                "kind": _KINDS.get(event.name, "other"),
                "status": "in_progress",
                "rawInput": event.args,
            }
        case ToolOutput():
            # ACP's content replaces what was there, and so does the event's text
            return _call_update(event.toolCallId, "in_progress", event.text)
        case ToolEnd():
            status = "failed" if event.isError else "completed"
            return _call_update(event.toolCallId, status, event.output)
        case ToolDenied():
            return _call_update(event.toolCallId, "failed", event.reason)
        case ModeChanged(mode=mode):
            return {"sessionUpdate": "current_mode_update", "currentModeId": mode}
        case _:
            return None


def commands_update(session_id: str, commands: list[AvailableCommand]) -> bytes:
    """The message that tells of a session's commands."""
    update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    return jsonrpc.notification("session/update", {"sessionId": session_id, "update": update})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call_update(call_id: str, status: str, text: str) -> dict[str, Any]:
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": call_id,
        "status": status,
        "content": [{"type": "content", "content": _text(text)}],
    }


# ── deltas ──────────────────────────────────────────────────────────────────────────────────────


def text_of(delta: Delta) -> str:
    """The piece of text that a delta carries."""
    return delta.arguments if isinstance(delta, ToolCallDelta) else delta.text


def with_text(delta: Delta, text: str) -> Delta:
    """The same delta with another piece of text."""
    if isinstance(delta, ToolCallDelta):
        return replace(delta, arguments=text)
    return replace(delta, text=text)


def key_of(event: AnyEvent) -> tuple[str, str] | None:
    """Neighbouring events with the same key may be sent as one; None: this one is sent as it is."""
    match event:
        case Text(messageId=message_id):
            return "text", message_id
        case Reasoning(messageId=message_id):
            return "reasoning", message_id
        case ToolCallDelta(toolCallId=call_id):
            return "call", call_id
        case _:
            return None
