"""A bare client on the other side of the link: it says what a test says, and keeps what comes as text."""

from typing import Any, Protocol

import msgspec

from tests.support.fake_instance import Answer, FakeInstance

LEMBAS = (
    '{"protocolVersion":1,"clientCapabilities":{"_meta":{"lembas":{"protocol":3,"show":true}}}}'
)


def reply(text: str) -> Answer:
    """A model's whole reply, streamed."""
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    body = b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n"
    return Answer(body=body, headers={"Content-Type": "text/event-stream"})


class Socket(Protocol):
    """The test's end of a client's connection."""

    def send(self, text: bytes, /) -> None: ...

    async def message(self) -> bytes: ...


class TextLink:
    """One link. Requests are text with their id put in; answers are the text of `result` or `error`."""

    def __init__(self, device: Socket) -> None:
        self.device = device
        self.told: list[str] = []
        self._number = 0
        self._answers: dict[int, str] = {}

    @classmethod
    async def of(cls, instance: FakeInstance, lembas: str = LEMBAS) -> "TextLink":
        """The next link of the device, initialized."""
        link = cls(await instance.device())
        await link.said("_lembas/hello")
        await link.ask("initialize", lembas)
        return link

    def send(self, method: str, params: str) -> int:
        """Send a request; its id."""
        self._number += 1
        text = f'{{"jsonrpc":"2.0","id":{self._number},"method":"{method}","params":{params}}}'
        self.device.send(text.encode())
        return self._number

    async def answer(self, number: int) -> str:
        """The answer of a request: the text of its result or error."""
        while number not in self._answers:
            await self._take()
        return self._answers.pop(number)

    async def ask(self, method: str, params: str) -> str:
        return await self.answer(self.send(method, params))

    async def value(self, method: str, params: str) -> Any:
        return msgspec.json.decode(await self.ask(method, params))

    def reply(self, asked: str, result: str) -> None:
        """Answer a request of the device's with this text of a result."""
        self._reply(asked, f'"result":{result}')

    def fail(self, asked: str, code: int) -> None:
        """Answer a request of the device's with an error."""
        self._reply(asked, f'"error":{{"code":{code},"message":"no"}}')

    def _reply(self, asked: str, answer: str) -> None:
        number = msgspec.json.decode(asked)["id"]
        self.device.send(f'{{"jsonrpc":"2.0","id":"{number}",{answer}}}'.encode())

    async def said(self, part: str) -> str:
        """The next message that is no answer and has this text in it; what came before it stays in `told`."""
        seen = 0
        while True:
            for text in self.told[seen:]:
                if part in text:
                    self.told.remove(text)
                    return text
            seen = len(self.told)
            await self._take()

    async def _take(self) -> None:
        raw = await self.device.message()
        message = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        if "method" in message:
            self.told.append(raw.decode())
            return
        number = msgspec.json.decode(message["id"], type=int)
        self._answers[number] = bytes(message.get("error") or message["result"]).decode()
