"""An OpenAI-compatible server whose models the instance passes through."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lembasd.engine.native.core import model_list
from lembasd.engine.native.core.levels import Price
from lembasd.instance.core.meter import Meter, Taken
from lembasd.instance.guard import Broken, TooLong, read_body, refusal
from lembasd.link.core import model_kinds
from lembasd.link.core.faults import LOOPBACK
from lembasd.protocol.errors import UsageError

#: to connect, and between two pieces of an answer: a model may think for long before its first word
CONNECT_TIMEOUT_S: Final = 15.0
READ_TIMEOUT_S: Final = 600.0
#: request headers that are ours to pass; all others (the token, cookies, hop-by-hop ones) stay here
_PASSED: Final = ("content-type", "accept")
#: to be told which models there are; one that takes longer is asked again later
LOOK_TIMEOUT_S: Final = 10.0
_OK: Final = 200
_RETURNED: Final = ("content-type", "retry-after", "x-request-id")


def base_url(text: str) -> str:
    """The upstream's address, with its /v1 or without. Raises UsageError."""
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UsageError(f"{text} is no server address; write it as https://models.example.org/v1")
    if parts.username or parts.password:
        raise UsageError("leave the key out of --upstream; give it with --upstream-key-file")
    return text.rstrip("/")


class _Asked(Struct):
    """What is read of a request that is passed on."""

    model: str = ""


class Upstream:
    """Passes requests on with the key, answers as they come. Close it at the end."""

    def __init__(self, url: str, key: str | None) -> None:
        self._given = base_url(url)
        #: the address below which it answers; one without a path may want a /v1 behind it, which is found out
        self._base = self._given if urlsplit(self._given).path else None
        #: what its models cost, as it listed them last
        self._prices: dict[str, Price | None] = {}
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._http = httpx.AsyncClient(
            timeout=timeout,
            follow_redirects=False,
            # a proxy of the environment must not see what goes to this machine
            trust_env=urlsplit(url).hostname not in LOOPBACK,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def models(self) -> list[str] | None:
        """The ids of its models for chats, in its order; None when it does not answer as an OpenAI-compatible server.

        Finds out on the way whether its address wants a /v1 behind it.
        """
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                return await self._look()
        except TimeoutError:
            return None

    async def _look(self) -> list[str] | None:
        for base in [self._base] if self._base else [f"{self._given}/v1", self._given]:
            try:
                answer = await self._http.get(f"{base}/models", headers=self._headers)
                listed = msgspec.json.decode(answer.content)
            except (httpx.HTTPError, msgspec.MsgspecError, RecursionError):
                continue
            if answer.status_code == _OK and model_kinds.is_list(listed):
                self._base = base
                entries = [model_list.read(entry) for entry in model_kinds.for_chat(listed)]
                self._prices = {entry.id: entry.price for entry in entries}
                return [entry.id for entry in entries]
        return None

    async def default_model(self) -> str | None:
        """The model of whoever names none: the upstream's first."""
        listed = await self.models()
        return listed[0] if listed else None

    async def forward(
        self, request: Request, path: str, took: Callable[[Taken], None] | None = None
    ) -> Response:
        """Ask `path` below the base URL as `request` asks us; 502 when the upstream cannot be reached.

        `took` is told what a completion took, once it has passed to its end.
        """
        try:
            body = await read_body(request)
        except TooLong:
            return refusal(413, "this request is too long; send less")
        if self._base is None:
            await self.models()
        passed = {name: request.headers[name] for name in _PASSED if name in request.headers}
        try:
            asked = self._http.build_request(
                request.method,
                f"{self._base or self._given + '/v1'}{path}",
                headers={**passed, "accept-encoding": "identity", **self._headers},
                content=body or None,
            )
            answer = await self._http.send(asked, stream=True)
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            return refusal(502, f"the upstream cannot be reached ({what}); check --upstream")
        headers = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
        # a redirect would take the key elsewhere
        if answer.is_redirect:
            await answer.aclose()
            return refusal(502, "the upstream redirects; give its final address to --upstream")
        pieces = _pieces(answer)
        if took is not None and answer.status_code == _OK:
            pieces = self._metered(pieces, answer.headers.get("content-type", ""), body, took)
        return StreamingResponse(pieces, answer.status_code, headers)

    async def _metered(
        self,
        pieces: AsyncGenerator[bytes, None],
        content_type: str,
        body: bytes,
        took: Callable[[Taken], None],
    ) -> AsyncGenerator[bytes, None]:
        meter = Meter(content_type)
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    meter.feed(piece)
                    yield piece
        finally:
            # one that is cut has taken what it took: a server that counts as it streams has said so
            taken = meter.taken(self._prices.get(_model(body)))
            if taken is not None:
                took(taken)


def _model(body: bytes) -> str:
    """The model that a request asks for."""
    try:
        return msgspec.json.decode(body, type=_Asked).model
    except (msgspec.MsgspecError, RecursionError):
        return ""


async def _pieces(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes. Raises Broken, which cuts our answer too, so that it is not taken for a whole one."""
    try:
        async for piece in answer.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        raise Broken from error
    finally:
        await answer.aclose()
