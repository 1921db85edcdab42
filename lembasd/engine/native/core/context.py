"""A session's records to the messages a model is sent. Nothing sent is ever rewritten.

A conversation is folded record by record. A call without a result (its process died) is given one by `unanswered`,
which the engine records before it goes on.
"""

from collections.abc import Iterable
from typing import Any, Final, assert_never

from msgspec import Struct

from lembasd.engine.native.core import compaction, images
from lembasd.engine.native.core.shown import Shown
from lembasd.harness.loader import LOOP, ContextLoop
from lembasd.protocol.context import Context, Personalization
from lembasd.store.core.rewinding import standing
from lembasd.store.records import (
    AccountPersonalization,
    AnyRecord,
    Assistant,
    Call,
    Compacted,
    ContextSet,
    Image,
    Learned,
    Note,
    OfferedTool,
    Prompted,
    Rewound,
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

OUTCOME_UNKNOWN: Final = (
    "Outcome unknown: this had started when the agent's process ended. "
    "Look at what is there before you do it again."
)
#: what stands for a reply that never came, where the next turn begins
NO_REPLY: Final = "(no reply)"
DID_NOT_RUN: Final = "This did not run: the agent's process ended before it."


#: what a file that came with a prompt, or with what was said in mid-turn, is named by in place of a result's id
_THE_PROMPT: Final = "the person's prompt"
_THE_MESSAGE: Final = "the person's message"


class _Before(Struct, frozen=True):
    """A conversation before a turn began."""

    messages: int = 0
    turn_at: int = 0
    is_new: bool = False
    task: str = ""


class Conversation:
    """What was said so far, as chat completion messages."""

    def __init__(self, records: Iterable[AnyRecord] = ()) -> None:
        self.fold(records)

    def fold(self, records: Iterable[AnyRecord]) -> None:
        """Be the conversation that these records say, whatever it was before."""
        self.system: str | None = None
        #: a hash of each instruction file that the model knows of, by its path
        self.instructions: dict[str, str] = {}
        #: what the client holds of the session, and a hash of each piece of it that the model knows of
        self.context = Context()
        self.pieces: dict[str, str] = {}
        #: the account's personalization; None: the device's own counts
        self.personalization: Personalization | None = None
        #: tools of MCP servers; None: nothing was asked yet, so they can still be fixed
        self.tools: list[OfferedTool] | None = None
        self._messages: list[dict[str, Any]] = []
        self._texts: dict[str, str] = {}
        self._open: dict[str, Call] = {}
        self._started: set[str] = set()
        #: where each message with calls stands, and its calls; results come right after it, in their order
        self._batches: list[tuple[int, list[Call]]] = []
        self._outputs: dict[str, str] = {}
        #: index of the message that began the running turn: reasoning goes back from there on
        self._turn_at = 0
        #: of each message that has some: the field it goes back in, and the text
        self._reasoning: dict[int, tuple[str, str]] = {}
        #: the last message is a user's that no request has taken to the model yet
        self._is_new = False
        #: images of the batch that is being answered, with their results' ids; and how many were shown
        self._images: list[tuple[str, Image]] = []
        self._shown_images = 0
        #: a request was made and answered: its beginning stands
        self.was_asked = False
        self.used_server_ids: set[str] = set()
        #: what was learnt of the model's server (core/server_facts), and its window in tokens (0: not known)
        self.facts: set[str] = set()
        #: what of files and folders the model has seen in this conversation
        self.shown = Shown()
        self._session_notes: list[str] = []
        #: the turn that began last, and the notes that its prompt came with
        self._turn_id = ""
        self._told: list[str] = []
        #: the prompt of the last turn that began; its message's text, and the images that it shows
        self.task = ""
        self._text = ""
        self._shown_with: list[dict[str, Any]] = []
        #: how things stood before the turn began, should it be none of the model's business
        self._before = _Before()
        self.window = 0
        self.results = 0
        for record in standing(list(records)):
            self.apply(record)

    def apply(self, record: AnyRecord) -> None:
        """Take one record in."""
        match record:
            case SystemPrompt() | ToolsOffered():
                self._fix(record)
            case TurnAccepted() | TurnStarted() | Prompted():
                self._turn(record)
            case Compacted():
                self._compact(record)
            case SessionNote():
                self._note(record)
            case Note():
                self._user(record.text)
            case Steered():
                self._steered(record)
            case Assistant():
                self._assistant(record)
            case ToolStarted():
                self._started.add(record.call_id)
            case ToolResult():
                self._result(record)
            case AccountPersonalization(personalization=personalization):
                self.personalization = personalization
            case Learned() | ContextSet() | Rewound() | SettingSet():
                self._know(record)
            case _:
                pass

    def _know(self, record: Learned | ContextSet | Rewound | SettingSet) -> None:
        """What is known beside what was said."""
        match record:
            case Learned():
                self.facts |= {record.fact} - {""}
                self.window = record.window or self.window
            case ContextSet(context=context):
                self.context = context
            case Rewound(results=results):
                self.results = max(self.results, results)
            case SettingSet(key="model"):
                # what was learnt was of another one
                self.facts, self.window = set(), 0
            case SettingSet():
                pass
            case _:
                assert_never(record)

    def _turn(self, record: TurnAccepted | TurnStarted | Prompted) -> None:
        match record:
            case TurnAccepted():
                self._texts[record.turn_id] = record.text
            case TurnStarted():
                self._begin(record.turn_id)
            case Prompted():
                self._prompted(record)
            case _:
                assert_never(record)

    def _fix(self, record: SystemPrompt | ToolsOffered) -> None:
        """What every request begins with."""
        if isinstance(record, ToolsOffered):
            self.tools = record.tools
        else:
            self.system = record.text
            self.instructions = record.instructions
            self.pieces = record.context

    def _begin(self, turn_id: str) -> None:
        self._before = _Before(len(self._messages), self._turn_at, self._is_new, self.task)
        self._turn_id = turn_id
        self._told, self._session_notes = self._session_notes, []
        self.task = self._text = self._texts.pop(turn_id, "")
        self._shown_with = []
        self._is_new = False  # a turn begins with a message of its own
        self._user(self._prompt())
        self._turn_at = len(self._messages) - 1

    def _prompt(self) -> str | list[dict[str, Any]]:
        """The content of the message with which the turn begins."""
        notes = [f"<session-note>{one}</session-note>" for one in self._told]
        text = "\n\n".join([*notes, self._text])
        return [*_as_parts(text), *self._shown_with] if self._shown_with else text

    def _prompted(self, record: Prompted) -> None:
        """What the turn's prompt was made into: its line is in the journal already."""
        if record.turn_id != self._turn_id:
            return  # of a turn that was taken back
        if record.action:
            before = self._before
            del self._messages[before.messages :]
            self._turn_at, self._is_new, self.task = before.turn_at, before.is_new, before.task
            self._session_notes = [*self._told, *self._session_notes]
            self._turn_id, self._told = "", []
            return
        self.task, self._text = record.task, record.text
        self._shown_with = self._show(record.images)
        self._messages[self._turn_at] = {"role": "user", "content": self._prompt()}
        for seen in record.seen:
            self.shown.add("read", {}, "", seen, _THE_PROMPT)

    def _steered(self, record: Steered) -> None:
        text, shown = record.text or "\n\n".join(record.texts), self._show(record.images)
        self._user([*_as_parts(text), *shown] if shown else text)
        for seen in record.seen:
            self.shown.add("read", {}, "", seen, _THE_MESSAGE)

    def _show(self, named: list[tuple[str, Image]]) -> list[dict[str, Any]]:
        """The content that shows images, as many of them as there is room for."""
        room = images.MAX_IMAGES - self._shown_images
        self._shown_images += min(room, len(named))
        return images.parts(named, room)

    def _note(self, record: SessionNote) -> None:
        if record.turn_id and record.turn_id == self._turn_id:
            # the turn's line is in the journal already, and its first request is not made yet
            self._told.append(record.text)
            self._messages[self._turn_at] = {"role": "user", "content": self._prompt()}
        else:
            self._session_notes.append(record.text)
        if record.instructions is not None:
            self.instructions = record.instructions
        if record.context is not None:
            self.pieces = record.context

    def _user(self, content: str | list[dict[str, Any]]) -> None:
        last = self._messages[-1] if self._messages else None
        if last is not None and last["role"] == "user":
            if self._is_new:
                self._messages[-1] = {**last, "content": _joined(last["content"], content)}
                return
            # the last message was answered by nothing, and many templates want the roles to alternate
            self._messages.append({"role": "assistant", "content": NO_REPLY})
        self._messages.append({"role": "user", "content": content})
        self._is_new = True

    def _compact(self, record: Compacted) -> None:
        """Everything so far is one message; what was read is to be read again."""
        text = compaction.message(record.summary, record.task, record.reads, LOOP.compaction)
        self._messages = [{"role": "user", "content": text}]
        self._batches.clear()
        self._outputs.clear()
        self._reasoning.clear()
        self._turn_at = 0
        self._images = []
        self._shown_images = 0
        self.shown.clear()

    def _assistant(self, record: Assistant) -> None:
        self._is_new = False
        self.was_asked = True
        self.tools = self.tools or []
        calls = [] if record.partial else record.calls
        if not record.text and not calls:
            return  # a reply of reasoning alone, or nothing: servers refuse an empty message
        message: dict[str, Any] = {"role": "assistant", "content": record.text}
        if calls:
            message["tool_calls"] = [wire_call(call) for call in calls]
            self._open.update((call.id, call) for call in calls)
            self._batches.append((len(self._messages), calls))
            self.used_server_ids.update(call.server_id for call in calls)
        if record.reasoning:
            self._reasoning[len(self._messages)] = (record.reasoning_key, record.reasoning)
        self._messages.append(message)

    def _result(self, record: ToolResult) -> None:
        self.results += 1
        call = self._open.pop(record.call_id, None)
        if call is None:
            return
        self._outputs[record.call_id] = record.told
        if not record.is_error and record.full is None:
            args = call.args or {}
            self.shown.add(call.name, args, record.output, record.seen, record.result_id)
        self._images += [(record.result_id, image) for image in record.images]
        if self._images and not self._open:
            self._user(self._show(self._images))
            self._images = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self._messages

    def unanswered(self) -> list[tuple[str, str]]:
        """(call id, what the model is told) of each call that has no result, in order."""
        return [
            (call_id, OUTCOME_UNKNOWN if call_id in self._started else DID_NOT_RUN)
            for call_id in self._open
        ]

    def messages(self) -> list[dict[str, Any]]:
        """The messages of the next request. Every call in them has exactly one result."""
        said: list[dict[str, Any]] = []
        batches = dict(self._batches)
        for index, message in enumerate(self._messages):
            reasoning = self._reasoning.get(index)
            if reasoning is not None and (index >= self._turn_at or self._keeps(message)):
                message = {**message, reasoning[0]: reasoning[1]}
            said.append(message)
            # a result may be recorded late (the next turn's line is before it): its place is here all the same
            said += [
                {
                    "role": "tool",
                    "tool_call_id": call.server_id,
                    "content": self._outputs[call.id],
                }
                for call in batches.get(index, [])
                if call.id in self._outputs
            ]
        return [{"role": "system", "content": self.system or ""}, *said]

    def _keeps(self, message: dict[str, Any]) -> bool:
        """Whether the server wants this message's reasoning after its turn too (decisions.md, harness 1)."""
        return "keep_reasoning" in self.facts and "tool_calls" in message


def _joined(one: Any, other: Any) -> Any:
    """Two contents of a message as one: texts by a blank line, else as parts."""
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    return [*_as_parts(one), *_as_parts(other)]


def _as_parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def wire_call(call: Call) -> dict[str, Any]:
    """A call as it goes back to the server that made it."""
    # arguments that do not parse are never sent back: some servers refuse the whole request for them
    arguments = call.arguments if call.args is not None and call.arguments.strip() else "{}"
    function = {"name": call.name or "unknown", "arguments": arguments, **call.function_extra}
    return {"id": call.server_id, "type": "function", "function": function, **call.extra}


def capped(text: str, loop: ContextLoop, result_id: str) -> str:
    """A result as the model sees it: a long one keeps its head and its tail (decisions.md, harness 12)."""
    lines = text.split("\n")
    if len(lines) <= loop.max_lines and len(text) <= loop.max_chars:
        return text
    head = "\n".join(lines[: loop.kept_lines])[: loop.kept_chars]
    # the tail is taken from what the head left: few long lines keep their end too
    rest = text[len(head) :]
    kept = rest.removesuffix("\n").split("\n")[-loop.kept_lines :]
    tail = ("\n".join(kept) + ("\n" if rest.endswith("\n") else ""))[-loop.kept_chars :]
    cut = rest[: len(rest) - len(tail)]
    elided = max(1, cut.strip("\n").count("\n") + 1)
    return f"{head}\n[{elided} lines elided, full output {result_id}]\n{tail}"
