"""JSON-RPC 2.0 messages: peeking at one without decoding its body, and encoding finished ones."""

import re
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from lembasd.protocol.errors import INVALID_REQUEST, PARSE_ERROR, RequestRefused

Id = str | int | None


class _PeekParams(Struct, frozen=True, gc=False):
    session: str = field(name="sessionId", default="")
    terminal: str = field(name="terminalId", default="")


class _Peek(Struct, frozen=True, gc=False):
    jsonrpc: str = ""
    id: Raw = Raw(b"")
    method: str = ""
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _Error(Struct, frozen=True, gc=False):
    code: int = 0


class Message(Struct, frozen=True):
    """What a router knows of a message: everything else stays in `text`, byte for byte.

    `id` is the id's JSON text (b"" for a notification), so that it goes back as it came, digits and all.
    A message with a `method` and an `id` is a request, with a `method` alone a notification, else a reply.
    """

    text: bytes
    id: bytes = b""
    method: str = ""
    session: str = ""
    terminal: str = ""
    params: bytes = b""
    result: bytes = b""
    error: bytes = b""

    @property
    def is_request(self) -> bool:
        return bool(self.method and self.id)

    @property
    def is_notification(self) -> bool:
        return bool(self.method and not self.id)

    @property
    def is_reply(self) -> bool:
        return not self.method

    @property
    def error_code(self) -> int:
        """The code of an error reply; 0 when it is none, or says none."""
        try:
            return _error.decode(self.error).code
        except (msgspec.MsgspecError, RecursionError):
            return 0

    @property
    def reply_id(self) -> str:
        """The id of a reply to one of our own requests, which are strings; "" for any other."""
        try:
            return msgspec.json.decode(self.id, type=str)
        except msgspec.MsgspecError:
            return ""


_error: Final = msgspec.json.Decoder(_Error)
_peek: Final = msgspec.json.Decoder(_Peek)
_peek_params: Final = msgspec.json.Decoder(_PeekParams)
#: an escape of JSON: a surrogate pair, a surrogate alone (group 1), or any other
_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_encoder: Final = msgspec.json.Encoder()


def _without_half(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape[1] else escape[0]


def peek(text: bytes) -> Message:
    """Read id, method and session of one JSON-RPC message.

    Raises RequestRefused with PARSE_ERROR for what is no JSON and INVALID_REQUEST for what is no message
    (batches are refused: decisions.md, wire 17). Half a character (an escaped surrogate without its other half, as a
    browser sends what was cut in an emoji) becomes U+FFFD: no decoder takes it, and the message stays a message.
    """
    try:
        seen = _peek.decode(text)
    except msgspec.ValidationError as error:
        if text.lstrip()[:1] == b"[":
            raise RequestRefused(
                INVALID_REQUEST, "batches are not supported; send one message at a time"
            ) from error
        raise RequestRefused(INVALID_REQUEST, "this is not a JSON-RPC 2.0 message") from error
    except (msgspec.DecodeError, RecursionError) as error:
        mended = _ESCAPES.sub(_without_half, text)
        if mended != text:
            return peek(mended)
        raise RequestRefused(PARSE_ERROR, "this is not JSON") from error
    message_id = bytes(seen.id)
    if not seen.method and not message_id:
        raise RequestRefused(INVALID_REQUEST, "a message needs a method or an id")
    if message_id[:1] in (b"{", b"[", b"t", b"f"):
        raise RequestRefused(INVALID_REQUEST, "an id is a string, a number or null")
    params = bytes(seen.params)
    session = terminal = ""
    if params[:1] == b"{":
        try:
            named = _peek_params.decode(params)
        except (msgspec.MsgspecError, RecursionError):
            pass  # ids of another type name nothing; the target answers -32602 when it decodes the rest
        else:
            session, terminal = named.session, named.terminal
    return Message(
        text=text,
        id=message_id,
        method=seen.method,
        session=session,
        terminal=terminal,
        params=params,
        result=bytes(seen.result),
        error=bytes(seen.error),
    )


def raw_id(value: Id) -> bytes:
    """An id's JSON text."""
    return _encoder.encode(value)


def request(message_id: Id, method: str, params: Any) -> bytes:
    """A finished request."""
    return _encoder.encode({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params})


def passed_on(message_id: bytes, method: str, params: Any) -> bytes:
    """A finished request with other params. `message_id` is the client's own id as JSON text."""
    return _encoder.encode(
        {"jsonrpc": "2.0", "id": Raw(message_id), "method": method, "params": params}
    )


def notification(method: str, params: Any) -> bytes:
    """A finished notification."""
    return _encoder.encode({"jsonrpc": "2.0", "method": method, "params": params})


def result(message_id: bytes, value: Any) -> bytes:
    """A finished answer. `message_id` is the request's id as JSON text, given back as it came."""
    return _encoder.encode({"jsonrpc": "2.0", "id": Raw(message_id or b"null"), "result": value})


def error(message_id: bytes, code: int, message: str, data: dict[str, Any] | None = None) -> bytes:
    """A finished error answer; `message` is one sentence for a person."""
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return _encoder.encode({"jsonrpc": "2.0", "id": Raw(message_id or b"null"), "error": body})


def refusal(message_id: bytes, refused: RequestRefused) -> bytes:
    """The error answer that says `refused`."""
    return error(message_id, refused.code, refused.message, refused.data)
