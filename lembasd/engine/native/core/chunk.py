"""One event of a streamed reply as values, in the shapes servers send.

Almost every chunk decodes at once. One with a field of another type, a broken character or half of a surrogate pair is
read again, field by field: what can be read of it counts, and one odd number does not cost the text beside it.
"""

import json
from types import UnionType
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct


class Part(Struct):
    """What is new of a message, or all of it."""

    #: a text, or parts of which some are texts
    content: Any = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[dict[str, Any]] | dict[str, Any] | None = None


class Choice(Struct):
    delta: Part | None = None
    message: Part | None = None
    finish_reason: str | None = None
    error: Any = None


class PromptDetails(Struct):
    cached_tokens: int | None = None


class CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class UsageFields(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: float | None = None


class Timings(Struct):
    cache_n: int | None = None


class PromptProgress(Struct):
    """Of llama-server, while it reads the prompt."""

    total: int = 0
    processed: int = 0


class Chunk(Struct):
    choices: list[Choice] | None = None
    usage: UsageFields | None = None
    timings: Timings | None = None
    prompt_progress: PromptProgress | None = None
    error: Any = None


class NotJson(Struct, frozen=True):
    """An event that is no JSON; `data` is what it holds."""

    data: bytes


_decoder: Final = msgspec.json.Decoder(Chunk, strict=False)


def read(data: bytes) -> Chunk | NotJson:
    """The event's fields; those of another type are left out, and JSON that is no object is a chunk without any."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        value = json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return NotJson(data.strip())
    chunk = _as(Chunk, value)
    return chunk if isinstance(chunk, Chunk) else Chunk()


def _as(kind: Any, value: Any) -> Any:
    """The value as one of the type, or what can be read of it as such; None: nothing."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except (msgspec.ValidationError, RecursionError):
        pass
    kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    for one in kinds:
        if get_origin(one) is list and isinstance(value, list):
            (inner,) = get_args(one)
            return [found for found in (_as(inner, each) for each in value) if found is not None]
        if isinstance(one, type) and issubclass(one, Struct) and isinstance(value, dict):
            fields = {field.name: field.type for field in msgspec.structs.fields(one)}
            read = {name: _as(of, value[name]) for name, of in fields.items() if name in value}
            return one(**{name: found for name, found in read.items() if found is not None})
    return None
