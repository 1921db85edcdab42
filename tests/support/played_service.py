"""The service as a client of its socket sees it, played: what is asked is kept and answered as a test says."""

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from lembasd.device.lock import HubLock
from lembasd.device.paths import Paths
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import METHOD_NOT_FOUND, RequestRefused
from lembasd.protocol.hello import Hello

TIMEOUT_S: Final = 10.0
SESSION: Final = "ses_00000000000000000000000001"
#: what a session is where a test does not say
SNAPSHOT: Final[dict[str, Any]] = {
    "title": "",
    "root": "",
    "mode": "manual",
    "model": "scripted",
    "effort": "default",
    "shared": False,
    "given": False,
    "turns": [],
    "live": [],
    "queued": [],
    "plan": None,
    "usage": None,
    "cards": [],
}


class PlayedService:
    """Holds the lock and listens. `answers`: by method, what params are answered with; a RequestRefused refuses."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._lock: HubLock | None = None
        self._server: asyncio.Server | None = None
        self._news = asyncio.Event()
        self._cards = 0
        self._epoch = 1
        self.seq = 0
        self.peers: list[Peer] = []
        #: method and params of all that was asked or told, in order
        self.asked: list[tuple[str, dict[str, Any]]] = []
        #: what cards were answered with, by their number
        self.answered: dict[int, Any] = {}
        self.snapshot: dict[str, Any] = dict(SNAPSHOT)
        self._waiting: dict[str, list[bytes]] = {}
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "initialize": lambda _params: {},
            "session/new": lambda _params: {"sessionId": SESSION},
            "_hub/attach": self._attach,
            "_lembas/commands": lambda _params: {"commands": []},
            "session/set_mode": lambda _params: {},
            "_lembas/steer": lambda _params: {"queued": 1},
        }

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.end()

    async def start(self) -> None:
        self._lock = HubLock.acquire(self._paths)
        self._server = await serve(bind(self._paths.socket), self, AssemblyBudget())

    async def end(self) -> None:
        """As a hub that dies."""
        if self._server is not None and self._lock is not None:
            self._server.close()
            self._paths.socket.unlink(missing_ok=True)
            for peer in list(self.peers):
                peer.abort("the hub died")
            await self._server.wait_closed()
            self._lock.release()
            self._server = self._lock = None

    # ── what comes ──────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.peers.append(peer)
        peer.send_hello(Hello(role="hub", build="test", pid=os.getpid(), client=len(self.peers)))

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        seen = jsonrpc.peek(message.payload)
        if seen.is_reply:
            number = int(seen.reply_id.rpartition(":")[2])
            self.answered[number] = msgspec.json.decode(seen.result or seen.error)
        else:
            params = msgspec.json.decode(seen.params or b"{}")
            self.asked.append((seen.method, params))
            if seen.is_request:
                self._answer(peer, seen, params)
        self._news.set()

    def _answer(self, peer: Peer, seen: jsonrpc.Message, params: dict[str, Any]) -> None:
        answer = self.answers.get(seen.method)
        if answer is None:
            if seen.method == "session/prompt":
                turn_id = params["_meta"]["lembas"]["turnId"]
                self._waiting.setdefault(turn_id, []).append(seen.id)
                return
            payload = jsonrpc.error(seen.id, METHOD_NOT_FOUND, f"{seen.method} is not played")
        else:
            try:
                payload = jsonrpc.result(seen.id, answer(params))
            except RequestRefused as refused:
                payload = jsonrpc.refusal(seen.id, refused)
        peer.send(Envelope(kind=kinds.RPC, payload=payload))

    def _attach(self, params: dict[str, Any]) -> dict[str, Any]:
        said = {"sessionId": params["sessionId"], "seq": f"{self._epoch}:{self.seq}"}
        return said if "since" in params else {**said, "snapshot": self.snapshot}

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        if peer in self.peers:
            self.peers.remove(peer)
        self._news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, looking after each message."""
        async with asyncio.timeout(TIMEOUT_S):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def next(self, method: str) -> dict[str, Any]:
        """The params of the first message of this method that was not looked at yet; those before it are dropped."""
        await self.until(lambda: any(one == method for one, _ in self.asked))
        while True:
            name, params = self.asked.pop(0)
            if name == method:
                return params

    # ── what is said ────────────────────────────────────────────────────────────────────────────

    def say(self, method: str, params: dict[str, Any]) -> None:
        """A numbered message of the session."""
        self.seq += 1
        payload = jsonrpc.notification(method, {"sessionId": SESSION, **params})
        for peer in self.peers:
            peer.send(
                Envelope(
                    kind=kinds.RPC,
                    channel=SESSION,
                    epoch=self._epoch,
                    seq=self.seq,
                    payload=payload,
                )
            )

    def event(self, kind: str, **fields: Any) -> None:
        self.say("_lembas/event", {"event": {"type": kind, **fields}})

    def update(self, kind: str, **fields: Any) -> None:
        self.say("session/update", {"update": {"sessionUpdate": kind, **fields}})

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """A card; its number."""
        self._cards += 1
        key = f"{SESSION}:{self._epoch}:{self._cards}"
        payload = jsonrpc.request(key, method, {"sessionId": SESSION, **params})
        for peer in self.peers:
            peer.send(Envelope(kind=kinds.RPC, channel=SESSION, payload=payload))
        return self._cards

    async def answer_of(self, number: int) -> Any:
        await self.until(lambda: number in self.answered)
        return self.answered[number]

    def end_turn(self, turn_id: str, stop: str = "end_turn", **said: Any) -> None:
        """Answer the prompt that began the turn."""
        result = {"stopReason": stop, "_meta": {"lembas": {"turnId": turn_id, **said}}}
        for message_id in self._waiting.pop(turn_id, []):
            for peer in self.peers:
                payload = jsonrpc.result(message_id, result)
                peer.send(Envelope(kind=kinds.RPC, payload=payload))
