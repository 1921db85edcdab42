"""Putting a streamed reply together: text, reasoning, tool calls by index, usage, why it ended."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.store.records import Call

#: calls in one reply; a model that makes more is repeating itself, and the rest is left out
MAX_CALLS: Final = 128


class TextDelta(Struct, frozen=True):
    text: str


class ReasoningDelta(Struct, frozen=True):
    text: str


class CallDelta(Struct, frozen=True):
    """A piece of a call's arguments; `call_id` is ours."""

    call_id: str
    name: str
    arguments: str


Delta = TextDelta | ReasoningDelta | CallDelta


class Usage(Struct, frozen=True):
    """Tokens as the server counted them; 0 where it did not say."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


class Reply(Struct, frozen=True):
    """A whole reply. `finish` is the server's finish_reason, "" when it gave none."""

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = []
    finish: str = ""
    usage: Usage = Usage()


class StreamError(Struct, frozen=True):
    """An error that the server sent in the middle of a stream."""

    message: str


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _CallPart(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    #: a text, or parts of which some are texts
    content: Any = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct):
    cached_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


class _Building:
    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.server_id = ""
        self.name = ""
        self.arguments: list[str] = []


_decoder: Final = msgspec.json.Decoder(_Chunk, strict=False)


class ReplyAssembler:
    """Feed it the data of each event; `reply` is what there is so far.

    `new_id` gives a call's id of ours; `used` are the server ids this session has sent before: one that comes again
    gets another, since a server that repeats ids would mix up their results.
    """

    def __init__(self, new_id: Callable[[], str], used: set[str]) -> None:
        self._new_id = new_id
        self._used = used
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Building] = {}
        #: the call that pieces of a server's index go to now: some give every call the index 0
        self._at: dict[int, int] = {}
        self._finish = ""
        self._usage = Usage()
        self.ended = False

    @property
    def has_output(self) -> bool:
        """Whether anything of the reply has come."""
        return bool(self._text or self._reasoning or self._calls)

    def feed(self, data: bytes) -> list[Delta] | StreamError:
        """The news in one event. What is no chunk (a comment of some server) is passed over."""
        if data.strip() == b"[DONE]":
            self.ended = True
            return []
        try:
            chunk = _decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            return []
        if chunk.error:
            return StreamError(error_text(chunk.error))
        if chunk.usage is not None:
            self._usage = _read_usage(chunk.usage)
        deltas: list[Delta] = []
        for choice in chunk.choices or []:
            deltas += self._choice(choice)
        return deltas

    def _choice(self, choice: _Choice) -> list[Delta]:
        deltas: list[Delta] = []
        part = choice.delta or choice.message
        if part is not None:
            reasoning = part.reasoning_content or part.reasoning
            if reasoning:
                self._reasoning.append(reasoning)
                deltas.append(ReasoningDelta(reasoning))
            text = _text_of(part.content)
            if text:
                self._text.append(text)
                deltas.append(TextDelta(text))
            for call in part.tool_calls or []:
                deltas += self._call(call)
        if choice.finish_reason:
            self._finish = choice.finish_reason
        return deltas

    def _call(self, part: _CallPart) -> list[Delta]:
        index = self._index(part)
        building = self._calls.get(index)
        if building is None:
            if len(self._calls) >= MAX_CALLS:
                self._at = {key: at for key, at in self._at.items() if at in self._calls}
                return []
            building = self._calls[index] = _Building(self._new_id())
        if part.id and not building.server_id:
            building.server_id = part.id
        function = part.function or _Function()
        if function.name and not building.name:
            building.name = function.name
        if function.arguments is None:
            return []
        # some servers send an object where a text is due
        given = function.arguments
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        building.arguments.append(text)
        return [CallDelta(building.call_id, building.name, text)]

    def _index(self, part: _CallPart) -> int:
        """Which call a piece belongs to: some servers send no index, or 0 for each."""
        last = max(self._calls, default=-1)
        if part.index is None:
            if part.id:
                return self._of_id(part.id, last + 1)
            return max(last, 0)
        at = self._at.get(part.index)
        if at is None:
            at = last + 1
        elif part.id and self._calls[at].server_id not in ("", part.id):
            at = self._of_id(part.id, last + 1)
        self._at[part.index] = at
        return at

    def _of_id(self, server_id: str, otherwise: int) -> int:
        same = (key for key, one in self._calls.items() if one.server_id == server_id)
        return next(same, otherwise)

    def reply(self) -> Reply:
        """What has come so far as one reply."""
        calls: list[Call] = []
        for index in sorted(self._calls):
            building = self._calls[index]
            arguments = "".join(building.arguments)
            server_id = building.server_id
            if not server_id or server_id in self._used:
                server_id = building.call_id.removeprefix("call_")[:9]
            self._used.add(server_id)
            calls.append(
                Call(
                    id=building.call_id,
                    server_id=server_id,
                    name=building.name,
                    arguments=arguments,
                    args=parse_arguments(arguments),
                )
            )
        return Reply(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=calls,
            finish=self._finish,
            usage=self._usage,
        )


def parse_arguments(text: str) -> dict[str, Any] | None:
    """A call's arguments, None when they are no JSON object; an empty text is a call without arguments."""
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None


def _text_of(content: Any) -> str:
    """The text of a message's content, which may come in parts; what is no text says nothing here."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def error_text(error: Any) -> str:
    """The words of an error object as servers send it."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return str(error)[:500]


def _read_usage(usage: _Usage) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cached=(prompt.cached_tokens or 0) if prompt else 0,
        reasoning=(completion.reasoning_tokens or 0) if completion else 0,
    )
