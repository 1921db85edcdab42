"""One device's link: requests with their answers, and what the device says of its own accord."""

import asyncio
from typing import Any, Final, Protocol

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lembasd.protocol import jsonrpc
from lembasd.protocol.errors import METHOD_NOT_FOUND, RequestRefused
from lembasd.protocol.lembas import CLOSE_REFUSED, LINK_PROTOCOL, LinkHello
from lembasd.protocol.limits import MAX_MESSAGE_BYTES

#: a device that has not said hello by then is none
HELLO_TIMEOUT_S: Final = 10.0
#: an answer other than a prompt's; without it the request fails, the link stays
ANSWER_TIMEOUT_S: Final = 60.0
#: requests without an answer; one more is refused, as the device does not answer any more
MAX_OUTSTANDING: Final = 1024
CLOSE_REPLACED: Final = 4001
CLOSE_GARBAGE: Final = 1008
#: what a refused device shows (link.md, Versions)
OTHER_PROTOCOL: Final = "update LLeMbas CLI to 2.0"
NO_HELLO: Final = "the first message must be _lembas/hello"
NOT_LINKED: Final = -32000


class LinkLost(RequestRefused):
    """The link ended before the answer came; what was asked may have happened."""

    def __init__(self) -> None:
        super().__init__(
            NOT_LINKED,
            "this device is not linked; start lembasd there and try again",
            {"reason": "not_linked"},
        )


class Refused(Exception):
    """This peer is closed with `code` and the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class LinkHandler(Protocol):
    """Who hears the device. Called from the loop; must not block and must not raise."""

    def notified(self, link: "DeviceLink", method: str, params: dict[str, Any]) -> None:
        """A notification."""

    def requested(self, link: "DeviceLink", request_id: bytes, method: str, params: Any) -> None:
        """A request; answer it with `link.answer` or `link.refuse`, at any time."""


class DeviceLink:
    """An accepted WebSocket. `greet` first, then `run` until it ends, while others `request`."""

    def __init__(self, socket: WebSocket, device_id: str) -> None:
        self.device_id = device_id
        self.hello: LinkHello | None = None
        #: `_meta.lembas` of the device's answer to initialize
        self.about: dict[str, Any] = {}
        self.initialized = False
        #: the turns of earlier links are sent: new ones may follow
        self.ready = False
        #: (session, turn) ids sent on this link
        self.sent: set[tuple[str, str]] = set()
        self._socket = socket
        self._sending = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._count = 0
        self._lost = False

    def can(self, capability: str) -> bool:
        """Whether the device said that it does this."""
        listed = self.about.get("capabilities")
        return isinstance(listed, list) and capability in listed

    async def greet(self) -> LinkHello:
        """The device's hello. Raises Refused for another protocol or another message, WebSocketDisconnect."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                message = jsonrpc.peek(await self._receive())
            if message.method != "_lembas/hello":
                raise Refused(CLOSE_REFUSED, NO_HELLO)
            if msgspec.json.decode(message.params, type=_Spoken).protocol != LINK_PROTOCOL:
                raise Refused(CLOSE_REFUSED, OTHER_PROTOCOL)
            self.hello = msgspec.json.decode(message.params, type=LinkHello)
        except (TimeoutError, RequestRefused, msgspec.MsgspecError):
            raise Refused(CLOSE_REFUSED, NO_HELLO) from None
        return self.hello

    async def _receive(self) -> bytes:
        message = await self._socket.receive()
        if message["type"] != "websocket.receive":
            raise WebSocketDisconnect(message.get("code", 1006))
        text = message.get("text")
        return text.encode() if text is not None else message.get("bytes") or b""

    async def run(self, handler: LinkHandler) -> None:
        """Read until the device is gone; every request without an answer then fails with LinkLost."""
        try:
            while True:
                self._take(handler, jsonrpc.peek(await self._receive()))
        except WebSocketDisconnect:
            pass
        except RequestRefused as error:
            await self.close(CLOSE_GARBAGE, error.message)
        finally:
            self._fail_all()

    def _take(self, handler: LinkHandler, message: jsonrpc.Message) -> None:
        if message.is_reply:
            self._answered(message)
            return
        try:
            params = msgspec.json.decode(message.params or b"{}", type=dict[str, Any])
        except msgspec.MsgspecError:
            raise RequestRefused(CLOSE_GARBAGE, "params must be an object") from None
        if message.is_request:
            handler.requested(self, message.id, message.method, params)
        else:
            handler.notified(self, message.method, params)

    def _answered(self, message: jsonrpc.Message) -> None:
        future = self._waiting.pop(message.reply_id, None)
        if future is None or future.done():
            return  # an answer that nobody waits for any more
        if not message.error:
            future.set_result(msgspec.json.decode(message.result or b"null"))
            return
        try:
            error = msgspec.json.decode(message.error, type=_Error)
        except msgspec.MsgspecError:
            error = _Error(0, "the device answered with an error that cannot be read")
        future.set_exception(RequestRefused(error.code, error.message, error.data))

    async def request(
        self, method: str, params: dict[str, Any], timeout_s: float | None = ANSWER_TIMEOUT_S
    ) -> Any:
        """The device's result. Raises RequestRefused with its error, LinkLost when the link ends first."""
        answer = await self.ask(method, params)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise RequestRefused(
                NOT_LINKED, f"the device did not answer in {timeout_s:g} s", {"reason": "timeout"}
            ) from None

    async def ask(self, method: str, params: dict[str, Any]) -> asyncio.Future[Any]:
        """Send a request; the future of its answer. Requests leave in the order they are asked."""
        if self._lost:
            raise LinkLost
        if len(self._waiting) >= MAX_OUTSTANDING:
            raise RequestRefused(
                NOT_LINKED, "the device answers too slowly; try again later", {"reason": "busy"}
            )
        self._count += 1
        request_id = str(self._count)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # read once here: an answer that nobody waits for any more is no unhandled error
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        future.add_done_callback(lambda _: self._waiting.pop(request_id, None))
        self._waiting[request_id] = future
        try:
            await self._send(jsonrpc.request(request_id, method, params))
        except BaseException:
            future.cancel()
            raise
        return future

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Raises LinkLost."""
        await self._send(jsonrpc.notification(method, params))

    async def answer(self, request_id: bytes, result: Any) -> None:
        """Raises LinkLost."""
        await self._send(jsonrpc.result(request_id, result))

    async def refuse(self, request_id: bytes, method: str) -> None:
        """Answer that this instance does not know the method. Raises LinkLost."""
        await self._send(jsonrpc.error(request_id, METHOD_NOT_FOUND, f"{method} is not known here"))

    async def _send(self, text: bytes) -> None:
        if len(text) > MAX_MESSAGE_BYTES:
            raise RequestRefused(NOT_LINKED, "this is too long for one message; send less")
        async with self._sending:
            if self._lost or self._socket.application_state is not WebSocketState.CONNECTED:
                raise LinkLost
            try:
                await self._socket.send_text(text.decode())
            except (WebSocketDisconnect, RuntimeError, OSError):
                raise LinkLost from None

    async def close(self, code: int, reason: str) -> None:
        """Close the link; `reason` is at most 123 bytes."""
        self._fail_all()
        try:
            await self._socket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError, OSError):
            pass  # it was gone already

    def _fail_all(self) -> None:
        self._lost = True
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(LinkLost())
        self._waiting.clear()


class _Spoken(msgspec.Struct, frozen=True):
    protocol: int = 1


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: dict[str, Any] | None = None
