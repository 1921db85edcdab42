"""What the running turn has said and done that its session's journal does not hold yet, for who joins in the middle."""

from typing import Final, cast

from lembasd.protocol.events import (
    DELTAS,
    AnyEvent,
    Retract,
    Step,
    Task,
    ToolDenied,
    ToolEnd,
    ToolOutput,
    ToolStart,
    Usage,
)
from lembasd.worker.core import translate
from lembasd.worker.core.translate import Delta

#: pieces of one message that are kept as they came; at the bound they are joined
MAX_PIECES: Final = 1000


class _Message:
    """Neighbouring deltas of one key."""

    def __init__(self, event: Delta) -> None:
        self.event = event
        self.pieces = [translate.text_of(event)]

    def add(self, event: Delta) -> None:
        self.pieces.append(translate.text_of(event))
        if len(self.pieces) > MAX_PIECES:
            self.pieces = ["".join(self.pieces)]

    def whole(self) -> AnyEvent:
        return translate.with_text(self.event, "".join(self.pieces))


class Live:
    """Fed with every event and told of each message that was recorded."""

    def __init__(self) -> None:
        #: the last word on tokens
        self.usage: Usage | None = None
        self._step: Step | None = None
        self._messages: list[tuple[tuple[str, str], _Message]] = []
        #: by toolCallId, of the calls that run: how each began, and its last output
        self._calls: dict[str, tuple[ToolStart, ToolOutput | None]] = {}

    def said(self, event: AnyEvent) -> None:
        match event:
            case Usage():
                self.usage = event
            case Step():
                self._step = event
            case Task():
                self._step = None
                self._messages.clear()
                self._calls.clear()
            case Retract(messageId=message_id):
                self._messages = [one for one in self._messages if one[0][1] != message_id]
            case ToolStart(toolCallId=call_id):
                self._calls[call_id] = event, None
            case ToolOutput(toolCallId=call_id):
                if call_id in self._calls:
                    self._calls[call_id] = self._calls[call_id][0], event
            case ToolEnd(toolCallId=call_id) | ToolDenied(toolCallId=call_id):
                self._calls.pop(call_id, None)
            case _ if isinstance(event, DELTAS):
                self._delta(event)
            case _:
                pass

    def _delta(self, event: Delta) -> None:
        key = cast("tuple[str, str]", translate.key_of(event))
        if self._messages and self._messages[-1][0] == key:
            self._messages[-1][1].add(event)
        else:
            self._messages.append((key, _Message(event)))

    def recorded(self) -> None:
        """The message that was being written is in the journal, with its calls."""
        self._messages.clear()

    @property
    def events(self) -> list[AnyEvent]:
        """What a client is to handle as if it came now."""
        out: list[AnyEvent] = [] if self._step is None else [self._step]
        out += [message.whole() for _key, message in self._messages]
        for start, output in self._calls.values():
            out += [start] if output is None else [start, output]
        return out
