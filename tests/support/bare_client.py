"""LLeMbas's side of one link, bare: it says what a test says and keeps what comes, as text and as JSON values.

It shares nothing with lembasd, so that it is a witness of the wire: link.md is all it knows. What passes and is ACP's is
judged by the official schema, in both directions.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import msgspec

from tests.support.acp import Judge
from tests.support.fake_instance import FakeInstance

LEMBAS: Final = (
    '{"protocolVersion":1,"clientCapabilities":{"_meta":{"lembas":{"protocol":3,"show":true}}}}'
)
#: what a loaded machine needs for one turn
ANSWER_S: Final = 60.0
Params = str | dict[str, Any]


class Wire(Protocol):
    """The connection a client is on."""

    #: set once it has ended
    closed: asyncio.Event
    close_reason: str

    def send(self, text: bytes, /) -> None: ...

    def messages(self) -> AsyncIterator[bytes]:
        """Every message of the other side's, to the end of the connection."""

    def drop(self) -> None:
        """End it as a network does."""


class LinkLost(Exception):
    """The link ended before what was waited for came."""


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


@dataclass(frozen=True)
class Message:
    """A message of the device's as it came."""

    text: str

    @cached_property
    def value(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.text)
        return found

    @property
    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value["params"]
        return found

    @property
    def method(self) -> str:
        """ "" for an answer."""
        return str(self.value.get("method", ""))


class BareClient:
    """One link. Params are JSON text, or values that are made such; answers are the text of `result` or `error`."""

    def __init__(self, device: Wire) -> None:
        self.device = device
        self.judge = Judge(refused_may_be_wrong=True)
        #: what came and is no answer, in its order, but what a test took
        self.told: list[Message] = []
        #: how often each id was answered, by its text
        self.answered: Counter[str] = Counter()
        #: params of hello and result of initialize, once `of` has them
        self.hello: dict[str, Any] = {}
        self.about: dict[str, Any] = {}
        self._answers: defaultdict[str, asyncio.Future[Message]] = defaultdict(asyncio.Future)
        #: is given what comes and is no answer
        self._hear: Hear = _keep
        self._number = 0
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def of(
        cls,
        instance: FakeInstance,
        initialize: str = LEMBAS,
        hear: "Hear | None" = None,
    ) -> "BareClient":
        """The client of the next link: hello came first, then it initialized.

        `hear` is given what comes from then on and is no answer; None: it is kept in `told`.
        """
        client = cls(await instance.device())
        await client._until(lambda: bool(client.told))
        hello = client.told.pop(0)
        assert hello.method == "_lembas/hello", hello.text
        client.hello = hello.params
        client._hear = hear or _keep
        client.about = await client.value("initialize", initialize)
        return client

    # ── what is said ────────────────────────────────────────────────────────────────────────────

    def send(self, text: str, *, judged: bool = True) -> None:
        """One message, whatever it is; not `judged`: it is wrong on purpose, and no answer will say so."""
        if judged:
            self.judge("client", text.encode())
        self.device.send(text.encode())

    def start(self, method: str, params: Params) -> int:
        """Send a request; its id."""
        self._number += 1
        self.send(
            f'{{"jsonrpc":"2.0","id":{self._number},"method":"{method}","params":{_text(params)}}}'
        )
        return self._number

    def notify(self, method: str, params: Params) -> None:
        self.send(f'{{"jsonrpc":"2.0","method":"{method}","params":{_text(params)}}}')

    def reply(self, request: Message, result: Params) -> None:
        """Answer what the device asked."""
        self._reply(request, f'"result":{_text(result)}')

    def fail(self, request: Message, code: int) -> None:
        """Answer what the device asked with an error."""
        self._reply(request, f'"error":{{"code":{code},"message":"no"}}')

    def _reply(self, request: Message, answer: str) -> None:
        asked = msgspec.json.encode(request.value["id"]).decode()
        self.send(f'{{"jsonrpc":"2.0","id":{asked},{answer}}}')

    # ── answers ─────────────────────────────────────────────────────────────────────────────────

    async def whole(self, asked: Any, within_s: float | None = ANSWER_S) -> Message:
        """The answer to the request with this id."""
        key = msgspec.json.encode(asked).decode()
        answer = self._answers[key]
        await asyncio.wait(
            (answer, self._reading), timeout=within_s, return_when=asyncio.FIRST_COMPLETED
        )
        if answer.done():
            self._answers.pop(key, None)
            return answer.result()
        if self._reading.done():
            raise LinkLost(self.device.close_reason)
        raise TimeoutError(f"no answer to {asked} in {within_s} s")

    async def answer(self, asked: int) -> str:
        """The text of its result or error."""
        message = await self.whole(asked)
        parts = msgspec.json.decode(message.text, type=dict[str, msgspec.Raw])
        return bytes(parts["error"] if "error" in parts else parts["result"]).decode()

    async def ask(self, method: str, params: Params) -> str:
        return await self.answer(self.start(method, params))

    async def result(self, asked: int, within_s: float | None = ANSWER_S) -> Any:
        """The result; raises Refused."""
        message = await self.whole(asked, within_s)
        if "error" in message.value:
            raise Refused(message.value["error"])
        return message.value["result"]

    async def value(self, method: str, params: Params) -> Any:
        """The result; raises Refused."""
        return await self.result(self.start(method, params))

    # ── what is told ────────────────────────────────────────────────────────────────────────────

    async def said(self, *parts: str) -> Message:
        """The next message that is no answer and has all these texts in it; it is taken out of `told`."""

        def found() -> Message | None:
            return next((one for one in self.told if all(part in one.text for part in parts)), None)

        await self._until(lambda: found() is not None)
        message = found()
        assert message is not None
        self.told.remove(message)
        return message

    async def event(self, session: str, kind: str, *parts: str) -> dict[str, Any]:
        """The next event of this type."""
        start = f'"params":{{"sessionId":"{session}","event":{{"type":"{kind}"'
        found: dict[str, Any] = (await self.said(start, *parts)).params["event"]
        return found

    async def update(self, session: str, kind: str, *parts: str) -> dict[str, Any]:
        """The next session/update of this kind."""
        start = f'"params":{{"sessionId":"{session}","update":{{"sessionUpdate":"{kind}"'
        found: dict[str, Any] = (await self.said(start, *parts)).params["update"]
        return found

    async def card(self, session: str) -> Message:
        """The next card of the session."""
        return await self.said(
            '"method":"session/request_permission"', f'"params":{{"sessionId":"{session}"'
        )

    def allow(self, card: Message, option: str = "once", **lembas: str) -> None:
        """Answer a card."""
        meta = {"_meta": {"lembas": lembas}} if lembas else {}
        self.reply(card, {"outcome": {"outcome": "selected", "optionId": option}, **meta})

    async def closed(self) -> None:
        """Wait for the end of the link."""
        await asyncio.shield(self._reading)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        async for raw in self.device.messages():
            message = Message(raw.decode())
            if message.method:
                self._hear(self, message)
            else:
                key = msgspec.json.encode(message.value["id"]).decode()
                self.answered[key] += 1
                if self._answers[key].done():
                    del self._answers[key]
                self._answers[key].set_result(message)
            self.judge("agent", raw)
            self._news.set()
        self._news.set()

    async def _until(self, there: Any) -> None:
        async with asyncio.timeout(ANSWER_S):
            while not there():
                if self._reading.done():
                    raise LinkLost(self.device.close_reason)
                self._news.clear()
                await self._news.wait()


Hear = Callable[[BareClient, Message], None]


def _keep(client: BareClient, message: Message) -> None:
    client.told.append(message)


def _text(params: Params) -> str:
    return params if isinstance(params, str) else msgspec.json.encode(params).decode()
