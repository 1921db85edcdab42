"""A device of a pocket instance: its login, and its side of the link message by message."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from lembasd.instance.main import Instance
from lembasd.instance.oauth import GRANT_TYPE

#: what a loaded machine needs for one message
TIMEOUT_S: Final = 10.0
HELLO: Final = {
    "protocol": 3,
    "version": "0.1",
    "harness_spec": "3.6.0",
    "device": {"host": "laptop", "platform": "linux"},
    "limits": {"roots": ["/w"], "max_mode": "edit", "require_trust": True, "scheduled": False},
}


async def log_in(instance: Instance, scope: str = "models memory link") -> str:
    """A device's token; the instance approves at once."""
    async with httpx.AsyncClient(base_url=instance.base_url) as http:
        form = {"client_id": "cli", "scope": scope}
        code = (await http.post("/oauth/device_authorization", data=form)).json()
        poll = {
            "grant_type": GRANT_TYPE,
            "client_id": "cli",
            "device_code": code["device_code"],
        }
        return str((await http.post("/oauth/token", data=poll)).json()["access_token"])


class LinkedDevice:
    """`async with LinkedDevice(instance, token) as device`: a link that has said hello and initialized."""

    def __init__(
        self,
        instance: Instance,
        token: str,
        *,
        introduce: bool = True,
        capabilities: Sequence[str] = ("turns",),
    ) -> None:
        self._url = f"ws://127.0.0.1:{instance.port}/api/devices/link"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._introduce = introduce
        self._capabilities = list(capabilities)
        self.socket: ClientConnection

    async def __aenter__(self) -> Self:
        self.socket = await connect(
            self._url, additional_headers=self._headers, proxy=None, max_size=None
        )
        if self._introduce:
            await self.hello()
            meta = {"lembas": {"protocol": 3, "capabilities": self._capabilities}}
            await self.answer(await self.expect("initialize"), {"_meta": meta})
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.socket.close()

    async def hello(self) -> None:
        await self.notify("_lembas/hello", HELLO)

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(TIMEOUT_S):
            message: dict[str, Any] = msgspec.json.decode(await self.socket.recv())
            return message

    async def expect(self, method: str) -> dict[str, Any]:
        """The next message, which must be of this method."""
        message = await self.receive()
        assert message["method"] == method, message
        return message

    async def send(self, **message: Any) -> None:
        await self.socket.send(msgspec.json.encode({"jsonrpc": "2.0", **message}).decode())

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.send(method=method, params=params)

    async def answer(self, request: dict[str, Any], result: Any) -> None:
        await self.send(id=request["id"], result=result)

    async def refuse(self, request: dict[str, Any], code: int, text: str) -> None:
        await self.send(id=request["id"], error={"code": code, "message": text})


class Feed:
    """The person's event stream, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def event(self, method: str) -> dict[str, Any]:
        """The next event of this method."""
        async with asyncio.timeout(TIMEOUT_S):
            async for line in self._lines:
                if line.startswith("data: "):
                    event: dict[str, Any] = msgspec.json.decode(line[6:])
                    if event["method"] == method:
                        return event
        raise AssertionError(f"the stream ended without {method}")
