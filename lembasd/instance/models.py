"""What a device's token opens: the instance's own description and its models."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lembasd.instance.core import demo_model
from lembasd.instance.core.meter import Taken
from lembasd.instance.guard import Keys, TooLong, read_body, refusal
from lembasd.instance.oauth import NAME, VERSION
from lembasd.instance.upstream import Upstream

_ACCOUNT: Final = {"email": "you@localhost", "name": "You"}
#: characters of text that count as a token in the demo's usage
_CHARS_PER_TOKEN: Final = 4
#: tokens the demo says its window has: it reads the last message alone, however long the rest is
_WINDOW_TOKENS: Final = 128_000
#: characters of a call's arguments in one delta
_ARGUMENTS_CHARS: Final = 16
#: a comment line keeps a pause in a stream from being taken for its end
PING_S: Final = 15


class _StreamOptions(Struct, frozen=True):
    include_usage: bool = False


class _Completion(demo_model.Request, frozen=True):
    model: str = demo_model.MODEL
    stream: bool = False
    stream_options: _StreamOptions | None = None

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class Models:
    """Answers from the upstream, else from the demo model."""

    def __init__(
        self, keys: Keys, upstream: Upstream | None, took: Callable[[str, Taken], None]
    ) -> None:
        """`took` is told what each answer to a device took."""
        self._keys = keys
        self._took = took
        self._upstream = upstream

    @property
    def is_demo(self) -> bool:
        return self._upstream is None

    async def default_model(self) -> str | None:
        """The model of a session that names none; None when the upstream has none."""
        return demo_model.MODEL if self._upstream is None else await self._upstream.default_model()

    def routes(self) -> list[Route]:
        return [
            Route("/api/v1/instance", self._instance, methods=["GET"]),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/chat/completions", self._complete, methods=["POST"]),
        ]

    async def _instance(self, request: Request) -> Response:
        device = self._keys.allowed(request, "models")
        if isinstance(device, Response):
            return device
        return JSONResponse(
            {
                "service": "lembas",
                "version": VERSION,
                "name": NAME,
                "connection": "pocket",
                "account": _ACCOUNT,
                "scope": device.scope,
                "default_model": await self.default_model(),
                "services": [],
            }
        )

    async def _models(self, request: Request) -> Response:
        device = self._keys.allowed(request, "models")
        if isinstance(device, Response):
            return device
        if self._upstream is not None:
            return await self._upstream.forward(request, "/models")
        model = {
            "id": demo_model.MODEL,
            "object": "model",
            "created": 0,
            "owned_by": "lembasd",
            "name": demo_model.NAME,
            "kind": "chat",
            "context": _WINDOW_TOKENS,
            "tools": True,
            "vision": False,
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def _complete(self, request: Request) -> Response:
        device = self._keys.allowed(request, "models")
        if isinstance(device, Response):
            return device
        if self._upstream is not None:
            return await self._upstream.forward(
                request, "/chat/completions", lambda taken: self._took(device.id, taken)
            )
        try:
            body = await read_body(request)
            asked = msgspec.json.decode(body, type=_Completion)
        except TooLong:
            return refusal(413, "this request is too long; send less")
        except msgspec.MsgspecError as error:
            return refusal(400, f"this is no chat completion request: {error}")
        if asked.model != demo_model.MODEL:
            return refusal(404, f"the model here is `{demo_model.MODEL}`, not `{asked.model}`")
        reply = demo_model.reply(asked)
        usage = _usage(len(body), reply)
        self._took(device.id, Taken(usage["prompt_tokens"], usage["completion_tokens"]))
        if asked.stream:
            return EventSourceResponse(
                _stream(reply, usage if asked.wants_usage else None), sep="\n", ping=PING_S
            )
        return JSONResponse(_whole(reply, usage))


def _usage(body_bytes: int, reply: demo_model.Reply) -> dict[str, int]:
    """Messages and tools are nearly all of a request."""
    read = body_bytes // _CHARS_PER_TOKEN + 1
    written = len(reply.text) // _CHARS_PER_TOKEN + 1
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }


def _call(call: demo_model.Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    # the script's own id is the same in every conversation that is; cards are told apart by these ids
    call_id = f"{call.call_id}_{secrets.token_hex(6)}"
    return {"id": call_id, "type": "function", "function": function}


def _call_deltas(call: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A call as servers stream it: its name first, then its arguments piece by piece."""
    function = call["function"]
    yield {**call, "function": {**function, "arguments": ""}}
    text = function["arguments"]
    for start in range(0, len(text), _ARGUMENTS_CHARS):
        yield {"function": {"arguments": text[start : start + _ARGUMENTS_CHARS]}}


def _finish(reply: demo_model.Reply) -> str:
    return "stop" if reply.call is None else "tool_calls"


def _head(kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": kind,
        "created": int(time.time()),
        "model": demo_model.MODEL,
    }


def _whole(reply: demo_model.Reply, usage: dict[str, int]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.call is not None:
        message["tool_calls"] = [_call(reply.call)]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {**_head("chat.completion"), "choices": [choice], "usage": usage}


async def _stream(reply: demo_model.Reply, usage: dict[str, int] | None) -> AsyncIterator[str]:
    head = _head("chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return msgspec.json.encode({**head, "choices": [choice]}).decode()

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.pieces:
        # the demo's own pace: a real timer, since there is nothing else to wait for
        await asyncio.sleep(piece.pause_s)
        yield chunk({"content": piece.text})
    if reply.call is not None:
        for delta in _call_deltas(_call(reply.call)):
            yield chunk({"tool_calls": [{"index": 0, **delta}]})
    yield chunk({}, _finish(reply))
    if usage is not None:
        yield msgspec.json.encode({**head, "choices": [], "usage": usage}).decode()
    yield "[DONE]"
