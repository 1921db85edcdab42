"""The other end of a real hub's link: texts go in and come out as they are on the wire."""

import asyncio
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from tests.support.daemon import Install
from tests.support.fake_instance import WAIT_S, Device, FakeInstance

INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,'
    b'"clientCapabilities":{"_meta":{"lembas":{"protocol":3}}}}}'
)


class BareLink:
    """`async with BareLink(install) as link`: an instance that the install is logged in to, and its hub linked to it."""

    def __init__(self, install: Install) -> None:
        self._install = install
        self.instance = FakeInstance()
        self.device: Device
        #: what hello and the answer to initialize said, decoded
        self.hello: dict[str, Any] = {}
        self.about: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        await self.instance.__aenter__()
        self._install.log_in(self.instance.url, model="demo")
        self.instance.tokens.add("a-test-token")
        await self._install.start_hub()
        await self.linked()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.instance.__aexit__(kind, error, traceback)

    async def linked(self) -> None:
        """The next link: it says hello and is initialized."""
        self.device = await self.instance.device()
        hello = msgspec.json.decode(await self.device.message())
        assert hello["method"] == "_lembas/hello"
        self.hello = hello["params"]
        self.about = msgspec.json.decode(await self.ask(INITIALIZE))["result"]["_meta"]["lembas"]

    async def ask(self, text: str | bytes) -> bytes:
        """The answer to a request; what comes before it is dropped."""
        raw = text.encode() if isinstance(text, str) else text
        asked = msgspec.json.decode(raw)["id"]
        self.device.send(raw)
        return await self.answer(asked)

    async def said(self, method: str) -> dict[str, Any]:
        """The params of the next message of this method; what comes before it is dropped."""
        async with asyncio.timeout(2 * WAIT_S):
            while True:
                message: dict[str, Any] = msgspec.json.decode(await self.device.message())
                if message.get("method") == method:
                    params: dict[str, Any] = message["params"]
                    return params

    async def answer(self, asked: Any) -> bytes:
        async with asyncio.timeout(2 * WAIT_S):
            while True:
                text = await self.device.message()
                message = msgspec.json.decode(text)
                if message.get("id") == asked and "method" not in message:
                    return text
