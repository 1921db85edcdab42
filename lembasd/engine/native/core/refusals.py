"""What an error answer of a model's server means: pass it by, wait, ask differently, or give up."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.engine.native.core import retry_after
from lembasd.engine.native.core.reply import error_text


class Passing(Struct, frozen=True):
    """It may pass: ask again. `wait_s`: what the server wants, None when it does not say."""

    message: str
    wait_s: float | None = None


class Loading(Struct, frozen=True):
    """The server loads the model: ask again in a while, however often."""

    message: str


class BadSample(Struct, frozen=True):
    """The model wrote what its server cannot read: ask once more, at once."""

    message: str


class Different(Struct, frozen=True):
    """The server does not take the request as it is: `fact` (core.server_facts) is to be remembered, and it is asked
    again in another shape.
    """

    message: str
    fact: str


class Overflow(Struct, frozen=True):
    """The conversation is longer than the model's window. `window`: tokens, where the server said."""

    message: str
    window: int | None = None


class Unauthorized(Struct, frozen=True):
    """401: the token is not taken."""

    message: str


class Refused(Struct, frozen=True):
    """It will not change by asking again."""

    message: str
    status: int | None = None


Meaning = Passing | Loading | BadSample | Different | Overflow | Unauthorized | Refused

RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

#: every server has words of its own for it
_OVERFLOW: Final = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|exceed_context_size|n_ctx|n_keep"
    r"|prompt is too long|input is too long|too many (?:input )?tokens|reduce the length"
    r"|(?:input|prompt|token)s? (?:count|length|limit)[^.]{0,40}exceed|exceeds? the (?:available|max\w*) (?:context|token)"
    r"|longer than the (?:model|context)|input length and .max_tokens. exceed|request too large for model"
)
_WINDOW: Final = re.compile(
    r"(?:maximum context length (?:is|of)|context (?:length|window|size)[^\d]{0,30}|n_ctx[\"' :=]+)\D{0,3}(\d{3,8})"
)
_QUOTA: Final = re.compile(
    r"insufficient_quota|insufficient (?:balance|credit|funds)|exceeded your current quota|billing|payment required"
)
_SAMPLE: Final = re.compile(
    r"error parsing tool call|failed to parse (?:the )?(?:tool|model)|does not match the expected peg|invalid tool call json"
)
_NO_TOOLS: Final = re.compile(
    r"(?:does not|doesn't|do not) support tools?|support tool use|tools? (?:is|are) not supported|no endpoints found"
)
_IMAGES: Final = re.compile(
    r"image (?:input|url|content)s?.{0,40}not (?:support|allow|enabled)|(?:does not|doesn't|not) support (?:image|vision|multimodal)"
    r"|not (?:a )?(?:multimodal|vision)|only .?text.? content|unknown variant .image_url|mmproj|no endpoints found that support image",
    re.DOTALL,
)
_REASONING_WANTED: Final = re.compile(
    r"reasoning_content.{0,120}(?:must|missing|required|pass)", re.DOTALL
)
#: parameters that the server may not know, and the fact that leaves each out
_PARAMETERS: Final = {
    "stream_options": "no_stream_options",
    "include_usage": "no_stream_options",
    "return_progress": "no_progress",
    "reasoning_effort": "no_effort",
    "chat_template_kwargs": "no_thinking_switch",
    "enable_thinking": "no_thinking_switch",
    "reasoning_content": "no_reasoning",
    "additionalproperties": "plain_schemas",
    "exclusiveminimum": "plain_schemas",
    "minimum": "plain_schemas",
}
_SYSTEM: Final = re.compile(
    r"system (?:role|message|prompt)s?.{0,60}(?:not support|unsupported|first|beginning|not allowed)"
    r"|(?:does not|doesn't) support (?:the )?(?:system|developer)",
    re.DOTALL,
)
_CONTENT: Final = re.compile(
    r"content.{0,80}(?:null|none|empty|required|missing|must be|non-?empty|string)", re.DOTALL
)


def read(
    status: int, headers: Mapping[str, str], raw: bytes, now: float, facts: frozenset[str]
) -> Meaning:
    """The meaning of an error answer. `facts`: what is remembered of the server; asked for again, it did not help."""
    error, words = _error(raw)
    said = f" ({words})" if words else ""
    if status == 401:
        return Unauthorized("the instance does not accept this device's login")
    message = f"the model's server answers {status}{said}"
    meaning = from_words(message, _all_text(error, words), facts, status=status, error=error)
    if meaning is not None:
        return meaning
    if status in RETRIED:
        return Passing(message, retry_after.wait_s(headers, now))
    return Refused(f"the model's server refuses the request with {status}{said}", status)


def from_words(
    message: str, text: str, facts: frozenset[str], *, status: int = 200, error: Any = None
) -> Meaning | None:
    """What the words of an error say by themselves, in an answer or in the middle of a stream; None: nothing."""
    lowered = text.lower()
    if _OVERFLOW.search(lowered) or status == 413:
        return Overflow(message, _window(error, lowered))
    if _QUOTA.search(lowered):
        return Refused(message)
    if status in (200, 503) and "loading model" in lowered:
        return Loading(message)
    if _SAMPLE.search(lowered):
        return BadSample(message)
    if _IMAGES.search(lowered) and "no_images" not in facts:
        return Different(message, "no_images")
    if _NO_TOOLS.search(lowered):
        return Refused(f"{message}; this model takes no tools: choose another model")
    if status in (400, 404, 422, 500):
        fact = _fact(lowered, facts)
        if fact is not None:
            return Different(message, fact)
    return None


def _fact(text: str, facts: frozenset[str]) -> str | None:
    """What the server cannot take, as the fact to remember; None when it says nothing that can be helped."""
    candidates = []
    if _REASONING_WANTED.search(text):
        candidates.append("keep_reasoning")
    candidates += [fact for word, fact in _PARAMETERS.items() if word in text]
    if _SYSTEM.search(text):
        candidates.append("no_system")
    if _CONTENT.search(text):
        candidates.append("null_content")
    return next((fact for fact in candidates if fact not in facts), None)


def _window(error: Any, text: str) -> int | None:
    if isinstance(error, dict):
        for key in ("n_ctx", "context_length", "max_context_length"):
            value = error.get(key)
            if isinstance(value, int) and value > 0:
                return value
    match = _WINDOW.search(text)
    return int(match[1]) if match else None


def _error(raw: bytes) -> tuple[Any, str]:
    """The error object or text of an answer, and its words for a person."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = raw.decode(errors="replace").strip()
        return text, "" if text.startswith("<") else text[:200]
    inner = value.get("error", value) if isinstance(value, dict) else value
    return inner, error_text(inner) if inner else ""


def _all_text(error: Any, words: str) -> str:
    return words if isinstance(error, str) else f"{words} {error}"
