"""Engine events: what `_lembas/event` carries in `event` (link.md; decisions.md, "Events the spec names").

An event is a value; the worker numbers it, journals what must last, and tells it to whom it concerns.
Field names are the wire's.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from lembasd.protocol.lembas import AttachmentInfo, QueuedPrompt


class Event(Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """The root of all events."""


class Session(Event, frozen=True, tag="session"):
    title: str
    root: str
    model: str
    mode: str
    effort: str


class Prompt(Event, frozen=True, tag="prompt"):
    """`text` as it was typed: a command's name, not what stands for it."""

    text: str
    turnId: str
    attachments: list[AttachmentInfo] = []


class Task(Event, frozen=True, tag="task"):
    """`state` is start or end."""

    state: str
    turnId: str


class Step(Event, frozen=True, tag="step"):
    """`n` counts the turn's model requests from 1."""

    n: int
    model: str


class Text(Event, frozen=True, tag="text"):
    """A delta of an assistant message."""

    text: str
    messageId: str


class Reasoning(Event, frozen=True, tag="reasoning"):
    text: str
    messageId: str


class ToolCallDelta(Event, frozen=True, tag="tool_call_delta"):
    toolCallId: str
    name: str
    arguments: str


class ToolStart(Event, frozen=True, tag="tool_start"):
    toolCallId: str
    name: str
    title: str
    block: str
    args: dict[str, Any]
    purpose: str | UnsetType = UNSET


class ToolOutput(Event, frozen=True, tag="tool_output"):
    """The last lines that a running call has said so far; they replace those of the event before.

    It goes out in ACP's words alone: link.md lists no event for it.
    """

    toolCallId: str
    text: str


class ToolEnd(Struct, frozen=True, tag_field="type", tag="tool_end"):
    toolCallId: str
    resultId: str
    isError: bool
    output: str
    duration_ms: int
    diff: str | UnsetType = UNSET


class ToolDenied(Event, frozen=True, tag="tool_denied"):
    """`by`: rule, floor, person, timeout or mode."""

    toolCallId: str
    name: str
    reason: str
    by: str


class Progress(Event, frozen=True, tag="progress"):
    """Tokens of the prompt that the model's server has read so far."""

    read: int
    total: int | UnsetType = UNSET


class Cost(Struct, frozen=True):
    amount: float
    currency: str


class Usage(Struct, frozen=True, tag_field="type", tag="usage"):
    """Tokens of one model request as its server counted them."""

    input: int
    output: int
    cached: int = 0
    reasoning: int | UnsetType = UNSET
    context: int | UnsetType = UNSET
    window: int | UnsetType = UNSET
    cost: Cost | UnsetType = UNSET


class Inbox(Struct, frozen=True, tag_field="type", tag="inbox"):
    """How many messages wait for the running turn's next step."""

    count: int


class Queue(Struct, frozen=True, tag_field="type", tag="queue"):
    """The prompts that wait. It goes out as `_hub/queue`, to clients of this machine: link.md lists no event for it."""

    queued: list[QueuedPrompt]


class Steered(Event, frozen=True, tag="steered"):
    """The model is given these with the next request; `ids` are the client's, of those that had one."""

    texts: list[str]
    ids: list[str] | UnsetType = UNSET


class Title(Event, frozen=True, tag="title"):
    id: str
    title: str


class Notice(Event, frozen=True, tag="notice"):
    """`level`: info or warning."""

    level: str
    text: str


class Flash(Event, frozen=True, tag="flash"):
    """Shown for a moment and kept nowhere."""

    text: str


class Retract(Event, frozen=True, tag="retract"):
    messageId: str


class Compacted(Event, frozen=True, tag="compacted"):
    """The conversation was summed up; the model goes on from this."""

    summary: str


class ModeChanged(Event, frozen=True, tag="mode"):
    mode: str


class Setting(Event, frozen=True, tag="setting"):
    """A setting was changed, by the settings tool or a person."""

    key: str
    value: str


class ModelChanged(Struct, frozen=True, tag_field="type", tag="model"):
    ref: str
    effort: str
    connection: str | None
    instance: bool


class Error(Struct, frozen=True, tag_field="type", tag="error"):
    message: str
    reason: str | UnsetType = UNSET
    retryable: bool = False


class Done(Event, frozen=True, tag="done"):
    turnId: str
    stopReason: str


AnyEvent = (
    Session
    | Prompt
    | Task
    | Step
    | Text
    | Reasoning
    | ToolCallDelta
    | ToolStart
    | ToolOutput
    | ToolEnd
    | ToolDenied
    | Progress
    | Usage
    | Inbox
    | Queue
    | Steered
    | Title
    | Notice
    | Flash
    | Retract
    | Compacted
    | ModeChanged
    | Setting
    | ModelChanged
    | Error
    | Done
)

#: events whose neighbours of the same message may be merged for a slow client
DELTAS = (Text, Reasoning, ToolCallDelta)
