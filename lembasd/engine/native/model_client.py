"""Asking an OpenAI-compatible server for one reply, streamed, with one layer of retries.

A reply cut in its middle is withdrawn (`retract`) and asked again. What a server does not take is left out and
remembered (core/server_facts). What cannot be helped is a `ModelFailed`.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from lembasd.device.logging import logger
from lembasd.engine.native.core import refusals, retry_after, server_facts
from lembasd.engine.native.core.refusals import (
    BadSample,
    Different,
    Loading,
    Meaning,
    Overflow,
    Passing,
    Refused,
    Unauthorized,
)
from lembasd.engine.native.core.reply import Delta, Reply, ReplyAssembler, StreamError
from lembasd.engine.native.core.sse import EventStream, EventTooLong
from lembasd.harness.loader import LOOP
from lembasd.protocol.control import Account
from lembasd.protocol.errors import INTERNAL_ERROR, LembasError
from lembasd.protocol.http_api import Personalization
from lembasd.protocol.limits import MIB
from lembasd.store.records import TurnError

#: a local model may read a long prompt for minutes before its first token
READ_TIMEOUT_S: Final = 600.0
#: once it writes, anything at all comes within this time, or the reply is given up
IDLE_TIMEOUT_S: Final = 120.0
CONNECT_TIMEOUT_S: Final = 10.0
#: some servers never close a stream: after the finish_reason the usage may still come, after the end marker nothing
AFTER_FINISH_S: Final = 2.0
AFTER_END_S: Final = 0.25
#: a server that loads its model is asked this often, and given up after so long
LOADING_STEP_S: Final = 2.0
LOADING_MAX_S: Final = 600.0
#: a list of models comes within it, or the turn goes on without
ABOUT_TIMEOUT_S: Final = 5.0
ABOUT_RETRY_S: Final = 0.3
MAX_ABOUT_BYTES: Final = 4 * MIB
#: an account's personalization comes within it, or a session has the device's own
PERSONALIZATION_TIMEOUT_S: Final = 3.0
MAX_PERSONALIZATION_BYTES: Final = 1 * MIB
_OK: Final = 200
#: an instance that has none for its accounts
_NOT_THERE: Final = (404, 405, 501)
#: of an error answer; more says nothing more
MAX_ERROR_BYTES: Final = 64 * 1024
ERROR_TIMEOUT_S: Final = 10.0
#: of one whole reply; a server that streams more is out of its mind
MAX_REPLY_BYTES: Final = 64 * MIB
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_context: ssl.SSLContext | None = None


def shared_context() -> ssl.SSLContext:
    """This process' one TLS context: making one costs more than forking a worker."""
    global _context  # noqa: PLW0603 - made once, before a zygote forks
    if _context is None:
        _context = ssl.create_default_context()
    return _context


class ModelFailed(LembasError):
    """The model cannot be had for this request; the text is for the person. `retryable`: later it may be had."""

    reason = "model"

    def __init__(self, message: str, *, retryable: bool = False, status: int | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.status = status

    def turn_error(self) -> TurnError:
        """What the prompt is answered with (decisions.md, wire 2)."""
        data: dict[str, Any] = {"reason": self.reason}
        if self.status is not None:
            data["status"] = self.status
        return TurnError(INTERNAL_ERROR, str(self), data)


class TokenRefused(ModelFailed):
    """401: the login may have been renewed meanwhile."""


class WindowFull(ModelFailed):
    """The conversation is longer than the model's window; `window` is its length in tokens, where the server said."""

    reason = "context"

    def __init__(self, message: str, window: int | None) -> None:
        super().__init__(message)
        self.window = window


class ModelClient:
    """Asks one server. `on_delta` gets the reply's pieces, `on_wait` is told of each wait, `on_retract` of a cut.

    `facts` is what is known of the server; `on_fact` is told what is learnt.
    """

    def __init__(
        self,
        *,
        facts: Iterable[str] = (),
        on_delta: Callable[[Delta], None],
        on_wait: Callable[[str], None],
        on_retract: Callable[[], None],
        on_fact: Callable[[str], None],
    ) -> None:
        self.facts = frozenset(facts) & server_facts.FACTS
        self._on_delta = on_delta
        self._on_wait = on_wait
        self._on_retract = on_retract
        self._on_fact = on_fact
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

    # ── asking until there is a reply ───────────────────────────────────────────────────────────

    async def ask(
        self,
        account: Account,
        body: Callable[[], dict[str, Any]],
        assembler: Callable[[bool], ReplyAssembler],
    ) -> Reply:
        """One whole reply. `body` makes the request, anew each time, for what is learnt may change it.

        `assembler` makes an empty reply; True: the model's template opens the reasoning.

        Raises ModelFailed when retries are over or useless, WindowFull, TokenRefused.
        """
        patience = _Patience()
        while True:
            self.partial = assembler("thinks" in self.facts)
            meaning = await self._once(account, body(), self.partial)
            if isinstance(meaning, Reply):
                if meaning.reread and meaning.reasoning:
                    self._learn("thinks")
                return meaning
            if self.partial.has_output:
                self._on_retract()
            self.partial = None  # withdrawn: a cancel while it waits keeps nothing of it
            if isinstance(meaning, Different):
                self._learn(meaning.fact)
                continue
            wait_s = patience.wait_s(meaning)
            if wait_s:
                self._on_wait(f"{meaning.message}; asking again in {wait_s:.1f} s")
                await asyncio.sleep(wait_s)

    def know(self, fact: str) -> None:
        """Take in what is known of the server without its having been asked; it is not told on."""
        self.facts |= {fact}

    def _learn(self, fact: str) -> None:
        if fact not in self.facts:
            self.facts |= {fact}
            self._on_fact(fact)

    async def personalization(self, account: Account) -> Personalization | None:
        """How the account wants to be answered; None where the instance does not say it. Never waited for long."""
        url = f"{account.base_url.rstrip('/')}/v1/me/personalization"
        headers = {"Authorization": f"Bearer {account.token}"}
        try:
            async with asyncio.timeout(PERSONALIZATION_TIMEOUT_S):
                async with self._client(url).stream("GET", url, headers=headers) as answer:
                    if answer.status_code in _NOT_THERE:
                        return None
                    if answer.status_code != _OK:
                        raise ValueError(f"it answers {answer.status_code}")
                    raw = await _read_up_to(answer, MAX_PERSONALIZATION_BYTES + 1)
            return msgspec.json.decode(raw, type=Personalization)
        except (
            TimeoutError,
            httpx.HTTPError,
            msgspec.MsgspecError,
            ValueError,
            RecursionError,
        ) as problem:
            why = str(problem) or type(problem).__name__
            logger().warning("no_personalization", instance=account.base_url, error=why)
            return None

    async def models(self, account: Account) -> bytes | None:
        """What the server answers when it is asked for its models, None for no answer; never waited for long."""
        url = f"{account.base_url.rstrip('/')}/v1/models"
        headers = {"Authorization": f"Bearer {account.token}"}
        try:
            async with asyncio.timeout(ABOUT_TIMEOUT_S):
                wait_s, raw = await self._listed(url, headers)
                if wait_s is not None:
                    await asyncio.sleep(wait_s)
                    _, raw = await self._listed(url, headers)
        except (TimeoutError, httpx.HTTPError):
            return None
        return raw or None

    async def _listed(self, url: str, headers: dict[str, str]) -> tuple[float | None, bytes]:
        """The list as it came, empty where there is none; and how long to wait where it is to be asked for again."""
        async with self._client(url).stream("GET", url, headers=headers) as answer:
            if answer.status_code in refusals.RETRIED:
                wanted = retry_after.wait_s(_lowered(answer.headers), time.time())
                return wanted or ABOUT_RETRY_S, b""
            if answer.status_code != 200:
                return None, b""
            raw = await _read_up_to(answer, MAX_ABOUT_BYTES + 1)
            return None, raw if len(raw) <= MAX_ABOUT_BYTES else b""

    # ── asking once ─────────────────────────────────────────────────────────────────────────────

    async def _once(
        self, account: Account, body: dict[str, Any], assembler: ReplyAssembler
    ) -> Reply | Meaning:
        url = f"{account.base_url.rstrip('/')}/v1/chat/completions"
        headers = {
            "Authorization": f"Bearer {account.token}",
            "Accept": "text/event-stream, application/json",
            "Content-Type": "application/json",
        }
        # the same bytes for the same values: what a server has read of a session it need not read again
        content = msgspec.json.encode(server_facts.shaped(body, self.facts))
        try:
            async with aclosing(await self._post(url, content, headers)) as answer:
                if answer.status_code != 200:
                    return await self._refusal(answer)
                error = await self._read(answer, assembler)
        except httpx.TimeoutException as fault:
            what = "connect" if isinstance(fault, httpx.ConnectTimeout) else "answer"
            return Passing(f"the model's server did not {what} in time")
        except httpx.HTTPError as fault:
            return Passing(
                f"the model's server cannot be reached ({str(fault) or type(fault).__name__})"
            )
        except EventTooLong as fault:
            return Refused(str(fault))
        return error if error is not None else self._whole(assembler)

    async def _post(self, url: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        """The answer to one request, its body to come; close it.

        A kept connection that its server has closed meanwhile is no failure of it: the request goes again at once, at
        the latest over a new one.
        """
        client = self._client(url)
        while True:
            connection = _Connection()
            request = client.build_request(
                "POST", url, content=content, headers=headers, extensions={"trace": connection.saw}
            )
            try:
                return await client.send(request, stream=True)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if connection.is_new:
                    raise

    async def _refusal(self, answer: httpx.Response) -> Meaning:
        raw = await _read_up_to(answer, MAX_ERROR_BYTES, ERROR_TIMEOUT_S)
        headers = _lowered(answer.headers)
        return refusals.read(answer.status_code, headers, raw, time.time(), self.facts)

    async def _read(self, answer: httpx.Response, assembler: ReplyAssembler) -> Meaning | None:
        """Read the answer to its end into the assembler; the error that stood in it, if any."""
        stream, total, whole = EventStream(), 0, list[bytes]()
        is_json: bool | None = None
        async for chunk in _chunks(answer.aiter_bytes(), assembler):
            total += len(chunk)
            if total > MAX_REPLY_BYTES:
                return Refused("the model's server sends a reply without end")
            if is_json is None and chunk.strip():
                # by what it is, not by what its header says: a stream of events never begins like this
                is_json = chunk.lstrip()[:1] == b"{"
            if is_json:
                whole.append(chunk)
                continue
            for data in stream.feed(chunk):
                error = self._feed(assembler, data)
                if error is not None:
                    return error
        for data in [b"".join(whole)] if is_json else stream.end():
            error = self._feed(assembler, data)
            if error is not None:
                return error
        if is_json:
            assembler.ended = True
        for delta in assembler.end():
            self._on_delta(delta)
        if not total and "no_stream" not in self.facts:
            return Different("the model's server streams nothing", "no_stream")
        return None

    def _feed(self, assembler: ReplyAssembler, data: bytes) -> Meaning | None:
        news = assembler.feed(data)
        if isinstance(news, StreamError):
            message = f"the model's server says: {news.message}"
            words = f"{news.message} {news.said}"
            return refusals.from_words(message, words, self.facts) or Passing(message)
        for delta in news:
            self._on_delta(delta)
        return None

    def _whole(self, assembler: ReplyAssembler) -> Reply | Meaning:
        reply = assembler.reply()
        if not reply.finish and (not assembler.ended or any(call.cut for call in reply.calls)):
            return Passing("the model's reply was cut off")
        return reply


class _Connection:
    """Whether the connection that a request went over was made for it."""

    def __init__(self) -> None:
        self.is_new = False

    async def saw(self, event: str, _: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.is_new = True


async def _read_up_to(
    answer: httpx.Response, most_bytes: int, timeout_s: float | None = None
) -> bytes:
    """The answer's body, as much of it as comes within the bounds."""
    pieces: list[bytes] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            async for piece in answer.aiter_bytes():
                pieces.append(piece[:most_bytes])
                most_bytes -= len(piece)
                if most_bytes <= 0:
                    break
    return b"".join(pieces)


def _lowered(headers: httpx.Headers) -> dict[str, str]:
    return {key.lower(): value for key, value in headers.items()}


class _Patience:
    """How often one reply is asked for, and how long is waited."""

    def __init__(self) -> None:
        self._attempts = 0
        self._samples = 0
        self._loading_s = 0.0

    def wait_s(self, meaning: Meaning) -> float:
        """How long to wait before it is asked again; 0: not at all. Raises ModelFailed when it is not."""
        match meaning:
            case Passing(message, wanted):
                return self._passing(message, wanted)
            case Loading(message):
                if self._loading_s >= LOADING_MAX_S:
                    raise ModelFailed(f"{message}; it still loads, try again later", retryable=True)
                self._loading_s += LOADING_STEP_S
                return LOADING_STEP_S
            case BadSample(message):
                self._samples += 1
                if self._samples > 1:
                    raise ModelFailed(f"{message}; asked twice, send it again", retryable=True)
                return 0.0
            case Overflow(message, window):
                raise WindowFull(f"{message}; the conversation is too long for the model", window)
            case Unauthorized(message):
                raise TokenRefused(f"{message}; run `lembas login` again", status=401)
            case Refused(message, status):
                raise ModelFailed(message, status=status)
            case Different(message):
                raise ModelFailed(message)

    def _passing(self, message: str, wanted: float | None) -> float:
        retry = LOOP.retry
        self._attempts += 1
        if self._attempts >= retry.attempts:
            raise ModelFailed(
                f"{message}; asked {self._attempts} times, try again later", retryable=True
            )
        if wanted is not None and wanted > retry.retry_after_max_s:
            raise ModelFailed(
                f"{message}; it wants to be asked again in {wanted:.0f} s: send it then",
                retryable=True,
            )
        ceiling = min(retry.last_s, retry.first_s * 2 ** (self._attempts - 1))
        spread = random.uniform(0, ceiling)  # noqa: S311 - spreads retries, guards nothing
        return spread + (wanted or 0.0)


async def _chunks(chunks: AsyncIterator[bytes], assembler: ReplyAssembler) -> AsyncIterator[bytes]:
    """The answer's bytes to its end, or until no more is to be expected."""
    clock = asyncio.get_running_loop().time
    #: when it is enough, whatever else comes: some servers send comments for ever
    over_at: float | None = None
    after_s = AFTER_FINISH_S
    while not assembler.full:
        if assembler.ended and after_s != AFTER_END_S:
            after_s, over_at = AFTER_END_S, clock() + AFTER_END_S
        elif assembler.finish and over_at is None:
            over_at = clock() + AFTER_FINISH_S
        limit = IDLE_TIMEOUT_S if assembler.has_output else READ_TIMEOUT_S
        try:
            async with asyncio.timeout_at(clock() + limit if over_at is None else over_at):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if over_at is not None:
                return  # all that matters has come, though the server keeps the connection open
            raise httpx.ReadTimeout("nothing more came") from None
        yield chunk
