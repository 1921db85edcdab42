"""A session's transcript, folded from its history and its events."""

from typing import Any, Final

from msgspec import UNSET

from lembasd.protocol import events
from lembasd.protocol.lembas import AssistantTurn, AttachmentInfo, UserTurn
from lembasd.tui.core.entries import Call, Entry, Note, Plan, Prompt, Reply
from lembasd.tui.core.plain import clean, clean_line

#: characters of a call's output that are kept to be looked at; the end is kept, where errors are
MAX_OUTPUT_CHARS: Final = 200_000
_ENDED: Final = frozenset({"done", "failed", "denied"})


class Transcript:
    """`entries` in order. `generation` grows when it is another list altogether."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.generation = 0
        self._numbers = 0
        self._calls: dict[str, Call] = {}
        self._plan: Plan | None = None

    def clear(self) -> None:
        self.entries = []
        self.generation += 1
        self._calls, self._plan = {}, None

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    # ── history ─────────────────────────────────────────────────────────────────────────────────

    def load(self, turns: list[UserTurn | AssistantTurn]) -> None:
        """Replace everything by a session's history."""
        self.clear()
        for turn in turns:
            if isinstance(turn, UserTurn):
                self.entries.append(
                    Prompt(
                        number=self._next(),
                        text=clean(turn.text),
                        turn_id=turn.turnId or "",
                        attachments=_named(turn.attachments),
                    )
                )
                continue
            self._said(turn.reasoning, thought=True)
            self._said(turn.text, thought=False)
            for tool in turn.tools:
                call = self._call(tool.id, tool.name)
                call.args = tool.args
                call.title = _title(tool.name, tool.args)
                call.output = _tail(tool.output or "")
                call.state = (
                    "unknown" if tool.output is None else "failed" if tool.isError else "done"
                )

    def _said(self, text: str, *, thought: bool) -> None:
        if text.strip():
            reply = Reply(number=self._next(), thought=thought)
            reply.add(text)
            self.entries.append(reply)

    # ── events ──────────────────────────────────────────────────────────────────────────────────

    def take(self, event: events.AnyEvent) -> None:
        """Fold one event in; most say nothing that is shown here."""
        match event:
            case events.Text() | events.Reasoning():
                self._text(event)
            case events.Prompt():
                self.prompt(event.text, event.turnId, _named(event.attachments))
            case events.Steered(texts=texts):
                for text in texts:
                    self.entries.append(Prompt(number=self._next(), text=clean(text), steered=True))
            case events.Retract(messageId=message_id):
                self._retract(message_id)
            case events.Notice(level=level, text=text):
                self.note(text, level)
            case events.Error(message=message):
                self.note(message, "error")
            case events.Compacted(summary=summary):
                self.note(f"the conversation was summed up:\n{summary}", "info")
            case events.Task(state="end"):
                self._task_ended()
            case _:
                self._tool(event)

    def _tool(self, event: events.AnyEvent) -> None:
        match event:
            case events.ToolCallDelta():
                call = self._call(event.toolCallId, event.name, state="drafting")
                call.drafted += len(event.arguments)
                call.changed()
            case events.ToolStart():
                call = self._call(event.toolCallId, event.name)
                call.state, call.args = "running", event.args
                call.title = clean_line(event.title).removeprefix(f"{call.name} ")
                call.purpose = "" if event.purpose is UNSET else clean_line(event.purpose)
                call.changed()
            case events.ToolEnd():
                call = self._call(event.toolCallId, "")
                call.state = "failed" if event.isError else "done"
                call.output, call.duration_ms = _tail(event.output), event.duration_ms
                call.diff = "" if event.diff is UNSET else clean(event.diff)
                call.changed()
            case events.ToolDenied():
                call = self._call(event.toolCallId, event.name)
                call.state, call.output = "denied", _tail(event.reason)
                call.changed()
            case _:
                pass

    def output(self, call_id: str, text: str) -> None:
        """What a running call said last, in the place of what it said before."""
        call = self._calls.get(call_id)
        if call is not None and call.state == "running":
            call.output = _tail(text)
            call.changed()

    def prompt(self, text: str, turn_id: str, attachments: tuple[str, ...] = ()) -> None:
        """What was asked; a turn is shown once."""
        if turn_id and any(
            isinstance(one, Prompt) and one.turn_id == turn_id for one in self.entries[-50:]
        ):
            return
        self.entries.append(
            Prompt(number=self._next(), text=clean(text), turn_id=turn_id, attachments=attachments)
        )

    def note(self, text: str, level: str = "info") -> None:
        """Say something at the end."""
        self.entries.append(Note(number=self._next(), level=level, text=clean(text)))

    def plan(self, tasks: tuple[tuple[str, str], ...]) -> None:
        """The plan as it is now; it stays where it was first shown."""
        tasks = tuple((clean_line(text), status) for text, status in tasks)
        if self._plan is None:
            self._plan = Plan(number=self._next())
            self.entries.append(self._plan)
        self._plan.tasks = tasks
        self._plan.changed()

    def _text(self, event: events.Text | events.Reasoning) -> None:
        thought = isinstance(event, events.Reasoning)
        last = self.entries[-1] if self.entries else None
        if not (
            isinstance(last, Reply)
            and last.thought == thought
            and last.message_id == event.messageId
        ):
            last = Reply(number=self._next(), message_id=event.messageId, thought=thought)
            self.entries.append(last)
        last.add(event.text)

    def _retract(self, message_id: str) -> None:
        self.entries = [
            one
            for one in self.entries
            if not (isinstance(one, Reply) and one.message_id == message_id)
        ]

    def _call(self, call_id: str, name: str, state: str = "running") -> Call:
        call = self._calls.get(call_id)
        if call is None:
            call = Call(number=self._next(), call_id=call_id, name=clean_line(name), state=state)
            self._calls[call_id] = call
            self.entries.append(call)
        return call

    def _task_ended(self) -> None:
        """A call without an end has none any more."""
        for call in self._calls.values():
            if call.state not in _ENDED:
                call.state = "unknown"
                call.changed()
        self._calls = {}

    # ── looking ─────────────────────────────────────────────────────────────────────────────────

    def last_reply(self) -> str:
        """The text of the model's last message, "" before the first."""
        for entry in reversed(self.entries):
            if isinstance(entry, Reply) and not entry.thought:
                return entry.text
        return ""

    @property
    def typed(self) -> list[str]:
        """The prompts that persons have typed, in order."""
        return [one.text for one in self.entries if isinstance(one, Prompt) and not one.machine]

    def running_call(self) -> Call | None:
        """The call that was begun last and runs."""
        running = [one for one in self._calls.values() if one.state == "running"]
        return running[-1] if running else None


def _named(attachments: list[AttachmentInfo]) -> tuple[str, ...]:
    return tuple(clean_line(one.name) for one in attachments)


def _tail(text: str) -> str:
    cut = text[-MAX_OUTPUT_CHARS:]
    return clean(cut if len(cut) == len(text) else f"[the beginning is left out]\n{cut}")


def _title(name: str, args: dict[str, Any]) -> str:
    """A line for a call of a history, which has none."""
    for key in ("command", "path", "pattern", "url", "query"):
        value = args.get(key)
        if isinstance(value, str) and value:
            return clean_line(value)
    return clean_line(name)
