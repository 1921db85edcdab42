"""The hub's side of one worker's socket, played by a test."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Attached, Settings, Stop
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello

TIMEOUT_S: Final = 10.0


class FakeHub:
    """Listens, answers each hello, sends what the test says and keeps every frame that came.

    `settings`: sent right after each hello. None: the test sends them itself.
    """

    def __init__(self, path: Path, settings: Settings | None = None, *, refused: str = "") -> None:
        self._path = path
        self._settings = settings
        self._refused = refused
        self._news = asyncio.Event()
        self._request = 0
        self._locals: set[int] = set()
        self.peer: Peer | None = None
        self.hellos: list[Hello] = []
        self.frames: list[Envelope] = []
        self.lost: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await serve(bind(self._path), self, AssemblyBudget())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        self._path.unlink(missing_ok=True)
        if self.peer is not None:
            self.peer.abort("the hub died")
        await self._server.wait_closed()

    # ── PeerHandler ─────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.hellos.append(hello)
        peer.send_hello(Hello(role="hub", build="test", pid=1, refused=self._refused))
        if not self._refused:
            self.peer = peer
            if self._settings is not None:
                self.control(kinds.SETTINGS, self._settings)
        self._news.set()

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        self.frames.append(message)
        self._news.set()

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self.lost.append(reason)
        self._news.set()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────

    def control(self, kind: str, value: Any = None, **fields: Any) -> None:
        """Send a control frame, its payload `value` as JSON."""
        assert self.peer is not None
        payload = b"" if value is None else msgspec.json.encode(value)
        self.peer.send(Envelope(kind=kind, payload=payload, **fields))

    def attach(self, client: int, **fields: Any) -> None:
        """Attach a client; `fields` as control.Attached has them."""
        if fields.get("local"):
            self._locals.add(client)
        self.control(kinds.ATTACHED, Attached(client=client, **fields))

    def stop(self, reason: str = "stopped") -> None:
        self.control(kinds.STOP, Stop(reason))

    def request(
        self, client: int, method: str, params: Any, *, session: str = "", local: bool = False
    ) -> int:
        """Send a client's request; the number its answer will carry."""
        assert self.peer is not None
        self._request += 1
        payload = jsonrpc.request(f"c{self._request}", method, params)
        self.peer.send(
            Envelope(
                kind=kinds.RPC,
                channel=session,
                client=client,
                request=self._request,
                payload=payload,
                local=local or client in self._locals,
            )
        )
        return self._request

    def say(self, client: int, payload: bytes) -> None:
        """Send a client's notification or reply."""
        assert self.peer is not None
        self.peer.send(Envelope(kind=kinds.RPC, client=client, payload=payload))

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────

    async def until(self, what: Callable[[], Any]) -> Any:
        """Wait until `what` gives something true, and give that."""
        async with asyncio.timeout(TIMEOUT_S):
            while not (found := what()):
                self._news.clear()
                await self._news.wait()
            return found

    async def frame(self, wanted: Callable[[Envelope], bool]) -> Envelope:
        """The first frame, come or to come, that is wanted; it is then used up."""

        def look() -> Envelope | None:
            return next((one for one in self.frames if wanted(one)), None)

        found: Envelope = await self.until(look)
        self.frames.remove(found)
        return found

    async def answer(self, request: int) -> Any:
        """The answer of a request, decoded: its `result` or its `error`."""
        frame = await self.frame(lambda one: one.request == request)
        whole = msgspec.json.decode(frame.payload)
        assert frame.failed == ("error" in whole)
        assert frame.audience == kinds.ONE
        return whole.get("error") or whole["result"]

    async def ask(self, client: int, method: str, params: Any, *, local: bool = False) -> Any:
        """A request and its answer."""
        return await self.answer(self.request(client, method, params, local=local))

    async def kind(self, kind: str) -> Envelope:
        """The first frame of a kind."""
        return await self.frame(lambda one: one.kind == kind)

    async def event(self, name: str) -> dict[str, Any]:
        """The first `_lembas/event` of this type, to all or to one."""

        def is_it(frame: Envelope) -> bool:
            return frame.kind == kinds.RPC and event_type(frame) == name

        frame = await self.frame(is_it)
        found: dict[str, Any] = msgspec.json.decode(frame.payload)["params"]["event"]
        return found

    def events(self) -> list[dict[str, Any]]:
        """Every broadcast `_lembas/event` that came, in order."""
        return [
            msgspec.json.decode(frame.payload)["params"]["event"]
            for frame in self.frames
            if frame.audience == kinds.LEMBAS
        ]


def event_type(frame: Envelope) -> str:
    """The type of the event that a frame carries, "" when it carries none."""
    message = msgspec.json.decode(frame.payload or b"{}")
    if message.get("method") != "_lembas/event":
        return ""
    name: str = message["params"]["event"]["type"]
    return name
