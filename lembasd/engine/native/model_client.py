"""Asking an OpenAI-compatible server for one reply, streamed, with one layer of retries.

A reply cut in its middle is withdrawn (`retract`) and asked again. What cannot be retried is a `ModelFailed`.
"""

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from lembasd.engine.native.core.reply import (
    Delta,
    Reply,
    ReplyAssembler,
    StreamError,
    error_text,
)
from lembasd.engine.native.core.sse import EventStream, EventTooLong
from lembasd.harness.loader import LOOP
from lembasd.protocol.control import Account
from lembasd.protocol.errors import INTERNAL_ERROR, LembasError
from lembasd.protocol.limits import MIB
from lembasd.store.records import TurnError

#: a local model may read a long prompt for minutes before its first token
READ_TIMEOUT_S: Final = 600.0
CONNECT_TIMEOUT_S: Final = 10.0
#: of an error answer; more says nothing more
MAX_ERROR_BYTES: Final = 64 * 1024
#: of one whole reply; a server that streams more is out of its mind
MAX_REPLY_BYTES: Final = 64 * MIB
_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_context: ssl.SSLContext | None = None


def shared_context() -> ssl.SSLContext:
    """This process' one TLS context: making one costs more than forking a worker."""
    global _context  # noqa: PLW0603 - made once, before a zygote forks
    if _context is None:
        _context = ssl.create_default_context()
    return _context


class ModelFailed(LembasError):
    """The model cannot be had for this request; the text is for the person."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    def turn_error(self) -> TurnError:
        """What the prompt is answered with (decisions.md, wire 2)."""
        data: dict[str, Any] = {"reason": "model"}
        if self.status is not None:
            data["status"] = self.status
        return TurnError(INTERNAL_ERROR, str(self), data)


class TokenRefused(ModelFailed):
    """401: the login may have been renewed meanwhile."""


class _Passing(LembasError):
    """A fault that may pass: ask again after `wait_s` (None: as the back-off says)."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class ModelClient:
    """Asks one server. `on_delta` gets the reply's pieces, `on_wait` is told of each wait, `on_retract` of a cut."""

    def __init__(
        self,
        *,
        on_delta: Callable[[Delta], None],
        on_wait: Callable[[str], None],
        on_retract: Callable[[], None],
    ) -> None:
        self._on_delta = on_delta
        self._on_wait = on_wait
        self._on_retract = on_retract
        self._http: httpx.AsyncClient | None = None
        #: what came of the reply under way: a cancelled one is kept as far as it got
        self.partial: ReplyAssembler | None = None

    def _client(self, base_url: str) -> httpx.AsyncClient:
        if self._http is None:
            self._http = httpx.AsyncClient(
                verify=shared_context(),
                # a proxy of the environment must not see what goes to this machine
                trust_env=urlsplit(base_url).hostname not in _LOOPBACK,
                timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
                follow_redirects=False,
            )
        return self._http

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def ask(
        self, account: Account, body: dict[str, Any], assembler: Callable[[], ReplyAssembler]
    ) -> Reply:
        """One whole reply. Raises ModelFailed when retries are over or useless, TokenRefused on a 401."""
        retry = LOOP.retry
        for attempt in range(1, retry.attempts + 1):
            self.partial = assembler()
            try:
                return await self._once(account, body, self.partial)
            except _Passing as fault:
                if self.partial.has_output:
                    self._on_retract()
                self.partial = None  # withdrawn: a cancel while it waits keeps nothing of it
                if attempt == retry.attempts:
                    raise ModelFailed(f"{fault}; asked {attempt} times, try again later") from None
                ceiling = min(retry.last_s, retry.first_s * 2 ** (attempt - 1))
                if fault.wait_s is not None and fault.wait_s > retry.retry_after_max_s:
                    raise ModelFailed(
                        f"{fault}; it wants to be asked again in {fault.wait_s:.0f} s: send it then"
                    ) from None
                wait_s = random.uniform(0, ceiling)  # noqa: S311 - spreads retries, guards nothing
                if fault.wait_s is not None:
                    wait_s += fault.wait_s
                self._on_wait(f"{fault}; asking again in {wait_s:.1f} s")
                await asyncio.sleep(wait_s)
        raise AssertionError("the loop ends by return or raise")

    async def _once(
        self, account: Account, body: dict[str, Any], assembler: ReplyAssembler
    ) -> Reply:
        url = f"{account.base_url.rstrip('/')}/v1/chat/completions"
        headers = {"Authorization": f"Bearer {account.token}", "Accept": "text/event-stream"}
        try:
            async with self._client(url).stream("POST", url, json=body, headers=headers) as answer:
                if answer.status_code != 200:
                    await _refused(answer)
                await _read(answer, assembler, self._on_delta)
        except httpx.TimeoutException as error:
            what = "connect" if isinstance(error, httpx.ConnectTimeout) else "answer"
            raise _Passing(f"the model's server did not {what} in time") from error
        except httpx.HTTPError as error:
            detail = str(error) or type(error).__name__
            raise _Passing(f"the model's server cannot be reached ({detail})") from error
        except EventTooLong as error:
            raise ModelFailed(str(error)) from error
        reply = assembler.reply()
        if not assembler.ended and not reply.finish:
            raise _Passing("the model's reply was cut off")
        return reply


async def _read(
    answer: httpx.Response, assembler: ReplyAssembler, on_delta: Callable[[Delta], None]
) -> None:
    stream, total, whole = EventStream(), 0, b""
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    async for chunk in answer.aiter_bytes():
        total += len(chunk)
        if total > MAX_REPLY_BYTES:
            raise ModelFailed("the model's server sends a reply without end")
        if is_json:  # a server that does not stream, though asked to
            whole += chunk
            continue
        for data in stream.feed(chunk):
            _feed(assembler, data, on_delta)
    for data in [whole] if is_json else stream.end():
        _feed(assembler, data, on_delta)


def _feed(assembler: ReplyAssembler, data: bytes, on_delta: Callable[[Delta], None]) -> None:
    news = assembler.feed(data)
    if isinstance(news, StreamError):
        raise _Passing(f"the model's server says: {news.message}")
    for delta in news:
        on_delta(delta)


async def _refused(answer: httpx.Response) -> None:
    """Raise what an error answer means."""
    raw = b""
    async for chunk in answer.aiter_bytes():
        raw += chunk
        if len(raw) >= MAX_ERROR_BYTES:
            break
    status = answer.status_code
    said = _words(raw)
    if status == 401:
        raise TokenRefused(
            "the instance does not accept this device's login; run `lembas login` again",
            status=status,
        )
    if status in _RETRIED:
        after = answer.headers.get("retry-after", "").strip()
        wait_s = float(after) if after.isdigit() else None
        raise _Passing(f"the model's server answers {status}{said}", wait_s)
    raise ModelFailed(f"the model's server refuses the request with {status}{said}", status=status)


def _words(raw: bytes) -> str:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = raw.decode(errors="replace").strip()[:200]
    else:
        inner = value.get("error", value) if isinstance(value, dict) else value
        text = error_text(inner)
    return f" ({text})" if text else ""
