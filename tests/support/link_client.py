"""LLeMbas's side of one link, bare: requests, answers and cards as JSON values, with nothing done for the device."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from lembasd.protocol.errors import RequestRefused
from tests.support.fake_instance import Device, FakeInstance

INITIALIZE: Final = {
    "protocolVersion": 1,
    "clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}},
}
#: what a loaded machine needs for one turn
ANSWER_S: Final = 60.0


class LinkLost(Exception):
    """The link ended before the answer came."""


class LinkClient:
    """`tap` is told of every message as text, with who sent it: "client" or "agent"."""

    def __init__(self, device: Device, tap: Callable[[str, bytes], None] | None = None) -> None:
        self.device = device
        self._tap = tap or (lambda _who, _text: None)
        self.notes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.cards: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        #: how often each id was answered
        self.answers: dict[Any, int] = {}
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    def send(self, message: dict[str, Any]) -> None:
        text = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self._tap("client", text)
        self.device.send(text)

    def start(self, method: str, params: Any) -> "asyncio.Future[dict[str, Any]]":
        """Ask; the future has the whole answer, or LinkLost."""
        self._number += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self.device.closed.is_set():
            future.set_exception(LinkLost())
            return future
        self._waiting[self._number] = future
        self.send({"id": self._number, "method": method, "params": params})
        return future

    async def ask(self, method: str, params: Any) -> Any:
        """The result; raises RequestRefused or LinkLost."""
        answer = await asyncio.wait_for(self.start(method, params), ANSWER_S)
        if "error" in answer:
            error = answer["error"]
            raise RequestRefused(error["code"], error["message"], error.get("data"))
        return answer["result"]

    async def card(self, option: str) -> dict[str, Any]:
        """Answer the next card; its params."""
        async with asyncio.timeout(ANSWER_S):
            card = await self.cards.get()
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        self.send({"id": card["id"], "result": outcome})
        params: dict[str, Any] = card["params"]
        return params

    async def closed(self) -> None:
        await self._reading

    async def _read(self) -> None:
        async for text in self.device.messages():
            self._tap("agent", text)
            message: dict[str, Any] = msgspec.json.decode(text)
            if "method" not in message:
                self._answered(message)
            elif "id" in message:
                self.cards.put_nowait(message)
            else:
                self.notes.put_nowait(message)
        for future in self._waiting.values():
            future.set_exception(LinkLost())
            future.exception()  # whoever waits for it is told all the same
        self._waiting.clear()

    def _answered(self, message: dict[str, Any]) -> None:
        self.answers[message["id"]] = self.answers.get(message["id"], 0) + 1
        future = self._waiting.pop(message["id"], None)
        if future is not None and not future.done():
            future.set_result(message)


async def linked(
    instance: FakeInstance, tap: Callable[[str, bytes], None] | None = None
) -> LinkClient:
    """The client of the next link, once it has initialized."""
    client = LinkClient(await instance.device(), tap)
    await client.ask("initialize", INITIALIZE)
    return client
