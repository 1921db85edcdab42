"""A hub's socket for one pty process: it answers hellos, credits output and keeps what it is told."""

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from lembasd import __version__
from lembasd.device.paths import Paths
from lembasd.ipc import listen
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Attached, Credit, Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello
from lembasd.protocol.lembas import TerminalOutput

TIMEOUT_S: Final = 15.0
_output: Final = msgspec.json.Decoder(TerminalOutput)


def _is_output(message: Envelope) -> bool:
    return message.kind == kinds.OUTPUT or (
        message.kind == kinds.RPC
        and not message.request
        and b'"_lembas/terminal/output"' in message.payload[:100]
    )


def _output_of(message: Envelope) -> bytes:
    if message.kind == kinds.OUTPUT:
        return message.payload
    return _output.decode(jsonrpc.peek(message.payload).params).data


class TerminalHub:
    """Credits terminal output at once while `crediting`; keeps each message of the process."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.peer: Peer | None = None
        self.hellos: list[Hello] = []
        self.messages: list[Envelope] = []
        self.crediting = True
        #: messages of output are among `messages`; a flood needs them not
        self.keeps_output = True
        self.refuse = ""
        self._output: dict[int, bytearray] = {}
        self._news = asyncio.Event()
        self._request = 0

    async def __aenter__(self) -> Self:
        self._server = await listen.serve(listen.bind(self._paths.socket), self, AssemblyBudget())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        self._paths.socket.unlink(missing_ok=True)
        if self.peer is not None:
            self.peer.abort("the hub is gone")
            await self.until(lambda: self.peer is None)

    # ── PeerHandler ─────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.hellos.append(hello)
        peer.send_hello(Hello(role="hub", build=__version__, pid=os.getpid(), refused=self.refuse))
        self.peer = peer
        self._news.set()

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        is_output = _is_output(message)
        if self.keeps_output or not is_output:
            self.messages.append(message)
        if is_output:
            data = _output_of(message)
            self._output.setdefault(message.client, bytearray()).extend(data)
            if self.crediting:
                self.credit(len(message.payload), message.client)
        self._news.set()

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self.peer = None
        self._news.set()

    # ── what a test does ────────────────────────────────────────────────────────────────────────

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _send(self, message: Envelope) -> None:
        assert self.peer is not None
        self.peer.send(message)

    def settings(self, settings: Settings) -> None:
        self._send(Envelope(kind=kinds.SETTINGS, payload=msgspec.json.encode(settings)))

    def attach(self, client: int, **fields: Any) -> None:
        payload = msgspec.json.encode(Attached(client=client, **fields))
        self._send(Envelope(kind=kinds.ATTACHED, payload=payload))

    def detach(self, client: int) -> None:
        self._send(Envelope(kind=kinds.DETACHED, client=client))

    def credit(self, count: int, client: int = 1) -> None:
        payload = msgspec.json.encode(Credit(count))
        self._send(Envelope(kind=kinds.CREDIT, client=client, payload=payload))

    def discarded(self, count: int, client: int = 1) -> None:
        payload = msgspec.json.encode(Credit(count))
        self._send(Envelope(kind=kinds.DISCARDED, client=client, payload=payload))

    def stop(self) -> None:
        self._send(Envelope(kind=kinds.STOP, payload=b"{}"))

    def type(self, keys: bytes) -> None:
        """Keys as they are, of client 1."""
        self._send(Envelope(kind=kinds.INPUT, client=1, payload=keys))

    def notify(self, method: str, params: Any) -> None:
        self._send(Envelope(kind=kinds.RPC, client=1, payload=jsonrpc.notification(method, params)))

    async def ask(self, method: str, params: Any) -> jsonrpc.Message:
        """Ask as client 1; the finished answer."""
        self._request += 1
        number = self._request
        payload = jsonrpc.request(f"r{number}", method, params)
        self._send(Envelope(kind=kinds.RPC, client=1, request=number, payload=payload))
        await self.until(lambda: any(one.request == number for one in self.messages))
        (answer,) = [one for one in self.messages if one.request == number]
        assert (answer.client, answer.audience) == (1, kinds.ONE)
        seen = jsonrpc.peek(answer.payload)
        assert seen.id == jsonrpc.raw_id(f"r{number}")
        assert bool(seen.error) == answer.failed
        return seen

    # ── what a terminal said ────────────────────────────────────────────────────────────────────

    def said(self, method: str) -> list[tuple[Envelope, jsonrpc.Message]]:
        """The notifications of this method so far, output left out."""
        rpc = [
            one
            for one in self.messages
            if one.kind == kinds.RPC and not one.request and not _is_output(one)
        ]
        seen = [(one, jsonrpc.peek(one.payload)) for one in rpc]
        return [(one, message) for one, message in seen if message.method == method]

    def output(self, *, to: int = 1) -> bytes:
        """The bytes of output that a client was sent so far."""
        return bytes(self._output.get(to, b""))
