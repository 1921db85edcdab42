"""Putting a streamed reply together: text, reasoning, tool calls, usage, why it ended."""

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.engine.native.core import call_arguments, chunk, surrogates, text_calls
from lembasd.engine.native.core.call_parts import BuildingCall, CallParts
from lembasd.engine.native.core.chunk import Choice, NotJson, Timings, UsageFields
from lembasd.engine.native.core.think_tags import CLOSE, OPEN, ThinkTags
from lembasd.store.records import Call

#: a model's own invention: a call that holds other calls
PARALLEL: Final = "multi_tool_use.parallel"
#: of a reply's text and reasoning together; a model that writes more does not stop by itself, and is cut as by a limit
MAX_REPLY_CHARS: Final = 4_000_000
#: what a server counts; more is no count of tokens
MAX_TOKENS: Final = 2**53
#: of an error's text; more says nothing more
MAX_ERROR_CHARS: Final = 500


class TextDelta(Struct, frozen=True):
    text: str


class ReasoningDelta(Struct, frozen=True):
    text: str


class CallDelta(Struct, frozen=True):
    """A piece of a call's arguments; `call_id` is ours."""

    call_id: str
    name: str
    arguments: str


class Progress(Struct, frozen=True):
    """How many of the prompt's tokens are read so far; `total` 0: the server does not say."""

    read: int
    total: int = 0


Delta = TextDelta | ReasoningDelta | CallDelta | Progress


class Usage(Struct, frozen=True):
    """Tokens as the server counted them; 0 where it did not say. `input` includes `cached`.

    `cost` is what the server says that it cost, in US dollars; None: it says nothing.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cost: float | None = None


class Reply(Struct, frozen=True):
    """A whole reply. `finish` is the server's finish_reason, "" when it gave none.

    `reasoning_key` is the field in which the reasoning came and goes back. `reread`: the text as it streamed was
    something else (calls, or reasoning), so what was shown of it is to be withdrawn.
    """

    text: str = ""
    reasoning: str = ""
    reasoning_key: str = "reasoning_content"
    calls: list[Call] = []
    finish: str = ""
    usage: Usage = Usage()
    reread: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it neither says nor does anything; reasoning alone says nothing to the person."""
        return not self.text.strip() and not self.calls

    @property
    def is_cut(self) -> bool:
        """Whether it ended at the output limit."""
        return self.finish == "length"


class StreamError(Struct, frozen=True):
    """An error that the server sent in the middle of a stream. `said` is all of it as text."""

    message: str
    said: str = ""


class ReplyAssembler:
    """Feed it the data of each event, then `end` it; `reply` is what there is so far.

    `new_id` gives a call's id of ours; `used` are the server ids this session has sent before: one that comes again
    gets another, since a server that repeats ids would mix up their results. `offered` are the names of the tools the
    model was given; `thinks`: its template opens the reasoning before the reply begins.
    """

    def __init__(
        self,
        new_id: Callable[[], str],
        used: Collection[str],
        offered: Collection[str] = (),
        *,
        thinks: bool = False,
    ) -> None:
        self._new_id = new_id
        self._used = set(used)
        self._offered = offered
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._chars = 0
        self._text_pieces = surrogates.Pieces()
        self._reasoning_pieces = surrogates.Pieces()
        self._reasoning_key = "reasoning_content"
        self._thinks = thinks
        self._tags = ThinkTags(inside=thinks)
        self._parts = CallParts(new_id, offered)
        self._finish = ""
        self._usage = Usage()
        self._reply: Reply | None = None
        #: the server said that this was all
        self.ended = False
        #: it is as long as a reply may be; what follows is not taken
        self.full = False

    @property
    def has_output(self) -> bool:
        """Whether anything of the reply has come."""
        return bool(self._text or self._reasoning or self._parts.calls)

    @property
    def finish(self) -> str:
        """The finish_reason, once it has come."""
        return self._finish

    def feed(self, data: bytes) -> list[Delta] | StreamError:
        """The news in one event. A comment that came as data says nothing; any other text is an error's."""
        event = chunk.read(data)
        if isinstance(event, NotJson):
            return self._odd(event.data)
        if event.error:
            return _stream_error(event.error)
        if event.usage is not None:
            self._usage = _read_usage(event.usage, event.timings)
        deltas: list[Delta] = []
        if event.prompt_progress is not None and not self.has_output:
            read = event.prompt_progress
            deltas.append(Progress(read.processed, read.total))
        for choice in event.choices or []:
            if choice.error:
                return _stream_error(choice.error)
            deltas += self._choice(choice)
            if choice.finish_reason == "error":
                return StreamError("the reply ended with an error")
        return deltas

    def _odd(self, text: bytes) -> list[Delta] | StreamError:
        """An event that is no JSON."""
        if text == b"[DONE]":
            self.ended = True
            return []
        if not text or text.startswith(b":"):
            return []  # a comment that some server sends as data, to keep the connection open
        said = text.decode(errors="replace")[:MAX_ERROR_CHARS]
        return StreamError(said, said)

    def _choice(self, choice: Choice) -> list[Delta]:
        deltas: list[Delta] = []
        part = choice.delta or choice.message
        if part is not None:
            reasoning = part.reasoning_content or part.reasoning
            if reasoning:
                if not part.reasoning_content:
                    self._reasoning_key = "reasoning"
                deltas += self._thought(self._reasoning_pieces.feed(reasoning))
            text = _text_of(part.content)
            if text:
                deltas += self._said(*self._tags.feed(self._text_pieces.feed(text)))
            if part.tool_calls:
                several = (
                    part.tool_calls if isinstance(part.tool_calls, list) else [part.tool_calls]
                )
                for one in several:
                    deltas += self._call(one)
        if choice.finish_reason:
            self._finish = choice.finish_reason
        return deltas

    def _said(self, reasoning: str, text: str) -> list[Delta]:
        deltas = self._thought(reasoning)
        text = self._room_for(text)
        if text:
            self._text.append(text)
            deltas.append(TextDelta(text))
        return deltas

    def _thought(self, reasoning: str) -> list[Delta]:
        reasoning = self._room_for(reasoning)
        if not reasoning:
            return []
        self._reasoning.append(reasoning)
        return [ReasoningDelta(reasoning)]

    def _room_for(self, text: str) -> str:
        self._chars += len(text)
        over = self._chars - MAX_REPLY_CHARS
        if over <= 0:
            return text
        self.full, self._finish, self._chars = True, "length", MAX_REPLY_CHARS
        return text[: len(text) - over]

    def _call(self, part: dict[str, Any]) -> list[Delta]:
        found = self._parts.add(part)
        if found is None:
            return []
        call, arguments = found
        return [CallDelta(call.call_id, call.name, arguments)] if arguments else []

    def end(self) -> list[Delta]:
        """No more comes: the last of what was held back."""
        deltas = self._thought(self._reasoning_pieces.end())
        deltas += self._said(*self._tags.feed(self._text_pieces.end()))
        return [*deltas, *self._said(*self._tags.end())]

    def reply(self) -> Reply:
        """What has come so far as one reply. The same one each time once it was asked for: ids stay."""
        if self._reply is None:
            self._reply = self._whole()
        return self._reply

    def _whole(self) -> Reply:
        self.end()
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        reread = False
        if self._thinks and not self._tags.closed and reasoning and not text:
            # this time it did not think
            text, reasoning, reread = reasoning, "", True
        if CLOSE in text and OPEN not in text and not reasoning and "```" not in text:
            # the template opened the reasoning, so only its end came in the text
            reasoning, _, text = text.partition(CLOSE)
            text, reread = text.lstrip("\n"), True
        calls = [one for building in self._parts.calls for one in self._calls(building)]
        if not calls:
            written = text_calls.find(text, self._offered)
            calls = [self._call_of(one.name, one.arguments) for one in written]
            text, reread = ("", True) if calls else (text, reread)
        return Reply(
            text=text_calls.without_tokens(text),
            reasoning=reasoning,
            reasoning_key=self._reasoning_key,
            calls=calls,
            finish=self._finish,
            usage=self._usage,
            reread=reread,
        )

    def _calls(self, building: BuildingCall) -> list[Call]:
        """The calls that one call of the server stands for."""
        read = call_arguments.read(building.arguments)
        if building.name == PARALLEL and read.problem is None:
            return [self._call_of(*use) for value in read.values for use in _uses(value)]
        first = Call(
            id=building.call_id,
            server_id=self._server_id(building.server_id),
            name=building.name,
            arguments=building.arguments if read.exact else _dumped(read.values[0]),
            args=read.values[0] if read.problem is None else None,
            cut=read.problem == "cut",
            extra=building.extra,
            function_extra=building.function_extra,
        )
        rest = [self._call_of(building.name, _dumped(value)) for value in read.values[1:]]
        return [first, *rest]

    def _call_of(self, name: str, arguments: str) -> Call:
        read = call_arguments.read(arguments)
        return Call(
            id=self._new_id(),
            server_id=self._server_id(""),
            name=name,
            arguments=arguments,
            args=read.values[0] if read.values else None,
        )

    def _server_id(self, given: str) -> str:
        """The id that goes back to the server: its own, or nine alphanumerics, which the strictest take."""
        while not given or given in self._used:
            given = self._new_id()[-9:]
        self._used.add(given)
        return given


def _uses(value: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and arguments of the calls in a call that holds others."""
    uses = value.get("tool_uses")
    found: list[tuple[str, str]] = []
    for use in uses if isinstance(uses, list) else []:
        name = use.get("recipient_name") if isinstance(use, dict) else None
        if isinstance(name, str):
            found.append((name.removeprefix("functions."), _dumped(use.get("parameters") or {})))
    return found


def _dumped(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text_of(content: Any) -> str:
    """The text of a message's content, which may come in parts; what is no text says nothing here."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _stream_error(error: Any) -> StreamError:
    return StreamError(error_text(error), surrogates.whole(str(error)[:MAX_ERROR_CHARS]))


def error_text(error: Any) -> str:
    """The words of an error object as servers send it."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return surrogates.whole(str(error)[:MAX_ERROR_CHARS])


def _read_usage(usage: UsageFields, timings: Timings | None) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached = (prompt.cached_tokens or 0) if prompt else 0
    if not cached:
        cached = usage.prompt_cache_hit_tokens or (timings.cache_n if timings else None) or 0
    cost = usage.cost
    return Usage(
        input=_count(usage.prompt_tokens),
        output=_count(usage.completion_tokens),
        cached=_count(cached),
        reasoning=_count(completion.reasoning_tokens if completion else None),
        cost=cost if cost is not None and 0 <= cost < float("inf") else None,
    )


def _count(said: int | None) -> int:
    """What is said of tokens, or nothing where it is no number of them."""
    return said if said is not None and 0 <= said <= MAX_TOKENS else 0
