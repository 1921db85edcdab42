"""The hub's messages as inputs of the chat. What it does not know it passes over."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.protocol import events
from lembasd.protocol.jsonrpc import Message
from lembasd.protocol.lembas import AvailableCommand, QueueParams, SettledHere
from lembasd.tui.core import cards
from lembasd.tui.core.cards import Card


class EventCame(Struct, frozen=True):
    event: events.AnyEvent


class OutputCame(Struct, frozen=True):
    """What a running call says now."""

    call_id: str
    text: str


class CommandsCame(Struct, frozen=True):
    commands: list[AvailableCommand]


class PlanCame(Struct, frozen=True):
    tasks: tuple[tuple[str, str], ...]


class CardCame(Struct, frozen=True):
    card: Card


class Settled(Struct, frozen=True):
    """A card was answered elsewhere, or is no longer waited for. `by`: terminal, instance, or "" for nobody."""

    call_id: str
    by: str = ""


class QueueCame(Struct, frozen=True):
    """The prompts that wait now, whoever sent them: turn id and text."""

    queued: tuple[tuple[str, str], ...]


class Deleted(Struct, frozen=True):
    """The session is gone."""


class GapCame(Struct, frozen=True):
    """What was missed cannot be given: history and status tell."""


class Unreadable(Struct, frozen=True):
    """A request that this build does not know, to be answered so."""

    key: bytes
    method: str


FromHub = (
    EventCame
    | OutputCame
    | CommandsCame
    | PlanCame
    | CardCame
    | Settled
    | QueueCame
    | Deleted
    | GapCame
    | Unreadable
)


class _EventParams(Struct, frozen=True):
    event: events.AnyEvent


class _CallUpdate(Struct, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"):
    toolCallId: str
    status: str = ""
    content: list[Any] = []


class _CommandsUpdate(
    Struct, frozen=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    availableCommands: list[AvailableCommand]


class _PlanEntry(Struct, frozen=True):
    content: str
    status: str = "pending"


class _PlanUpdate(Struct, frozen=True, tag_field="sessionUpdate", tag="plan"):
    entries: list[_PlanEntry]


class _UpdateParams(Struct, frozen=True):
    update: _CallUpdate | _CommandsUpdate | _PlanUpdate


_event: Final = msgspec.json.Decoder(_EventParams)
_update: Final = msgspec.json.Decoder(_UpdateParams)
_settled: Final = msgspec.json.Decoder(SettledHere)
_queue: Final = msgspec.json.Decoder(QueueParams)
#: what comes as an event too, in most messages of a stream: passed over unread
_TWICE: Final = (b'"sessionUpdate":"agent_', b'"sessionUpdate":"tool_call"')
_HEAD_BYTES: Final = 160


def read(message: Message) -> FromHub | None:
    """A notification or a request of the hub's side; None: it says nothing that is shown."""
    if message.is_request:
        if message.method in cards.METHODS:
            card = cards.read(message.method, message.id, message.params)
            if card is not None:
                return CardCame(card)
        return Unreadable(message.id, message.method)
    try:
        return _notification(message)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _notification(message: Message) -> FromHub | None:
    match message.method:
        case "_lembas/event":
            return EventCame(_event.decode(message.params).event)
        case "session/update":
            head = message.params[:_HEAD_BYTES]
            if any(one in head for one in _TWICE):
                return None
            return _session_update(_update.decode(message.params).update)
        case "_lembas/permission/settled":
            settled = _settled.decode(message.params)
            return Settled(settled.toolCallId, settled.meta.lembas.by or "")
        case "_hub/queue":
            queued = _queue.decode(message.params).queued
            return QueueCame(tuple((one.turnId, one.text) for one in queued))
        case "_lembas/session/deleted":
            return Deleted()
        case "_hub/gap":
            return GapCame()
        case _:
            return None


def _session_update(update: _CallUpdate | _CommandsUpdate | _PlanUpdate) -> FromHub | None:
    match update:
        case _CommandsUpdate(availableCommands=commands):
            return CommandsCame(commands)
        case _PlanUpdate(entries=entries):
            return PlanCame(tuple((one.content, one.status) for one in entries))
        case _CallUpdate(status="in_progress", content=[{"content": {"text": str(text)}}]):
            return OutputCame(update.toolCallId, text)
        case _:
            return None
