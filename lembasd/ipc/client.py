"""A client of the hub socket: JSON-RPC requests out, answers and notifications back.

Used by the commands; the same class attaches a test or a terminal to a session.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from lembasd import __version__
from lembasd.ipc.connect import HubRefuses, NoHub, connect
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import METHOD_NOT_FOUND, RequestRefused
from lembasd.protocol.hello import Hello
from lembasd.protocol.limits import HELLO_TIMEOUT_S

#: an answer that has not come by then is not coming: the hub answers every request (hub/core/router)
DEFAULT_TIMEOUT_S: Final = 30.0


class _WireError(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: Any = None


class HubClient:
    """One connection to the hub.

    `on_message` gets each notification and each request of the hub's side, as `jsonrpc.Message`; a request
    (a permission card) is answered with `reply`. `on_output` gets a terminal's output as it is, where the client asked
    for that (`terminal_frames`): the terminal, where the output begins, and the output. `on_answer` gets each future of
    `start` whose answer came, in its place among the messages: what waits for a future goes on later than they do.
    """

    def __init__(
        self,
        on_message: Callable[[jsonrpc.Message], None] | None = None,
        on_output: Callable[[str, int, bytes], None] | None = None,
        on_answer: Callable[[asyncio.Future[bytes]], None] | None = None,
    ) -> None:
        self._on_message = on_message
        self._on_output = on_output
        self._on_answer = on_answer
        self._peer: Peer | None = None
        self._next_id = 0
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._hello: asyncio.Future[Hello] | None = None
        self._seen: dict[str, str] = {}
        self.lost = asyncio.Event()

    async def connect(self, socket_path: Path) -> Hello:
        """Connect and exchange hellos; the hub's is returned.

        Raises NoHub when nobody listens or answers in time, HubRefuses with the hub's sentence.
        """
        self._hello = asyncio.get_running_loop().create_future()
        hello = Hello(role="client", build=__version__, pid=os.getpid())
        self._peer = await connect(socket_path, hello, self)
        try:
            answer = await asyncio.wait_for(asyncio.shield(self._hello), HELLO_TIMEOUT_S)
        except TimeoutError:
            self.close()
            raise NoHub(
                "the hub does not answer; end its process (`kill -9`), then start it again"
            ) from None
        if answer.refused:
            self.close()
            raise HubRefuses(answer.refused)
        return answer

    async def request(
        self, method: str, params: Any, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> bytes:
        """Ask and wait; the result's JSON text.

        Raises RequestRefused for an error answer, NoHub when the connection ends first, TimeoutError.
        """
        future = self.start(method, params)
        return await asyncio.wait_for(future, timeout_s)

    def start(self, method: str, params: Any) -> asyncio.Future[bytes]:
        """Ask without waiting; the future ends as `request` does."""
        peer = self._open_peer()
        self._next_id += 1
        message_id = jsonrpc.raw_id(self._next_id)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = future
        payload = jsonrpc.request(self._next_id, method, params)
        peer.send(Envelope(kind=kinds.RPC, payload=payload))
        return future

    def notify(self, method: str, params: Any) -> None:
        """Send a notification. Raises NoHub on a closed connection."""
        payload = jsonrpc.notification(method, params)
        self._open_peer().send(Envelope(kind=kinds.RPC, payload=payload))

    def type(self, terminal: str, keys: bytes) -> None:
        """Send keys as they are, to a terminal whose output came so. Raises NoHub on a closed connection."""
        self._open_peer().send(Envelope(kind=kinds.INPUT, channel=terminal, payload=keys))

    def reply(self, message: jsonrpc.Message, result: Any) -> None:
        """Answer a request that came to `on_message`. Raises NoHub on a closed connection."""
        payload = jsonrpc.result(message.id, result)
        self._open_peer().send(Envelope(kind=kinds.RPC, payload=payload))

    def refuse(self, message: jsonrpc.Message, code: int, sentence: str) -> None:
        """Answer a request that came to `on_message` with an error. Raises NoHub on a closed connection."""
        payload = jsonrpc.error(message.id, code, sentence)
        self._open_peer().send(Envelope(kind=kinds.RPC, payload=payload))

    def seen(self, session_id: str) -> str | None:
        """The number (`epoch:seq`) of the last message of a session that came, for `_hub/attach`; None: none has."""
        return self._seen.get(session_id)

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()

    def _open_peer(self) -> Peer:
        if self._peer is None or not self._peer.is_open:
            raise NoHub("the connection to the hub is gone; connect again")
        return self._peer

    # ── PeerHandler ─────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        if self._hello is not None and not self._hello.done():
            self._hello.set_result(hello)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == kinds.OUTPUT and self._on_output is not None:
            self._on_output(message.channel, message.offset, message.payload)
            return
        if message.kind != kinds.RPC:
            peer.answer_unknown(message)
            return
        if message.seq:
            self._seen[message.channel] = f"{message.epoch}:{message.seq}"
        try:
            seen = jsonrpc.peek(message.payload)
        except RequestRefused as refused:
            peer.close(f"the hub sent what is no message: {refused}")
            return
        if seen.is_reply:
            self._answered(seen)
        elif self._on_message is not None:
            self._on_message(seen)
        elif seen.is_request:
            payload = jsonrpc.error(
                seen.id, METHOD_NOT_FOUND, f"{seen.method} is not answered here"
            )
            peer.send(Envelope(kind=kinds.RPC, payload=payload))

    def _answered(self, seen: jsonrpc.Message) -> None:
        future = self._waiting.pop(seen.id, None)
        if future is None or future.done():
            return
        if seen.error:
            wire = msgspec.json.decode(seen.error, type=_WireError)
            future.set_exception(RequestRefused(wire.code, wire.message, wire.data))
            future.exception()  # whoever waits gets it; nobody waiting is no fault
        else:
            future.set_result(seen.result or b"null")
        if self._on_answer is not None:
            self._on_answer(future)

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self.lost.set()
        gone = NoHub(f"the connection to the hub ended: {reason}")
        if self._hello is not None and not self._hello.done():
            self._hello.set_exception(gone)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(gone)
                future.exception()  # whoever waits gets it; nobody waiting is no fault
        self._waiting.clear()
