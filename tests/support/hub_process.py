"""A real hub server in this process, with scripted workers, terminals and clients on real sockets."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog

from lembasd.device.paths import Paths
from lembasd.hub.link_client import LinkClient
from lembasd.hub.runner import Hub
from lembasd.hub.server import Server
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import connect
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Attached, SessionState, Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello, SessionHello, TerminalHello
from lembasd.protocol.spawn import Assignment
from lembasd.store.deletes import Deletes
from lembasd.store.sessions import Probe

#: what `initialize` of an LLeMbas client asks
LEMBAS = {"clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}}}
#: every wait of these tests
SOON_S = 5.0


class FixedSettings:
    """Settings a test sets."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def current(self) -> Settings:
        return self.settings


class Stores:
    """How sessions' stores stand, as a test says."""

    def __init__(self) -> None:
        self.known: dict[str, Probe] = {}

    def __call__(self, session: str) -> Probe:
        return self.known.get(session, Probe(exists=False))


class ScriptedProcess:
    """A worker, a terminal or a utility worker that a test plays. Everything it is sent goes to `inbox`."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.inbox: asyncio.Queue[Envelope] = asyncio.Queue()
        self.hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.peer: Peer | None = None
        self.seq = 0

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.hello.set_result(hello)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        self.inbox.put_nowait(message)

    def peer_writable(self, peer: Peer) -> None: ...

    def peer_lost(self, peer: Peer, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    async def next(self, kind: str) -> Envelope:
        """The next frame of this kind; those before it are dropped."""
        async with asyncio.timeout(SOON_S):
            while True:
                message = await self.inbox.get()
                if message.kind == kind:
                    return message

    async def next_method(self, method: str) -> Envelope:
        """The next message of a client with this method."""
        while True:
            message = await self.next(kinds.RPC)
            if jsonrpc.peek(message.payload).method == method:
                return message

    def send(self, message: Envelope) -> None:
        assert self.peer is not None
        self.peer.send(message)

    def answer(self, asked: Envelope, value: object, *, failed: bool = False) -> None:
        """Answer a request."""
        seen = jsonrpc.peek(asked.payload)
        payload = (
            jsonrpc.error(seen.id, -32602, str(value)) if failed else jsonrpc.result(seen.id, value)
        )
        self.send(
            Envelope(
                kind=kinds.RPC,
                channel=asked.channel,
                client=asked.client,
                request=asked.request,
                audience=kinds.ONE,
                failed=failed,
                payload=payload,
            )
        )

    def say(self, text: str, *, audience: str = kinds.ALL, delta: bool = True) -> None:
        """A numbered broadcast."""
        self.seq += 1
        payload = jsonrpc.notification("session/update", {"text": text})
        self.send(
            Envelope(
                kind=kinds.RPC,
                channel=self.channel,
                epoch=1,
                seq=self.seq,
                audience=audience,
                delta=delta,
                payload=payload,
            )
        )

    def state(self, **fields: Any) -> None:
        payload = msgspec.json.encode(SessionState(**fields))
        self.send(Envelope(kind=kinds.STATE, channel=self.channel, payload=payload))

    def close(self) -> None:
        if self.peer is not None:
            self.peer.close()


class ScriptedStarter:
    """Starts processes by asking the test: `started` gets each assignment, the test dials for it."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[Assignment] = asyncio.Queue()
        self.watched: list[int] = []

    def start(self, assignment: Assignment) -> None:
        self.started.put_nowait(assignment)

    def watch(self, pid: int, channel: str = "") -> None:
        self.watched.append(pid)

    async def next(self) -> Assignment:
        async with asyncio.timeout(SOON_S):
            return await self.started.get()


class RecordingClient:
    """A client on the socket that keeps what it is told."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[jsonrpc.Message] = asyncio.Queue()
        self.output: asyncio.Queue[tuple[str, int, bytes]] = asyncio.Queue()
        self.hub = HubClient(self.inbox.put_nowait, self._output)
        self.number = 0

    def _output(self, terminal: str, offset: int, data: bytes) -> None:
        self.output.put_nowait((terminal, offset, data))

    async def next(self, method: str) -> Any:
        """The params of the next message of this method; those before it are dropped."""
        return msgspec.json.decode((await self.next_message(method)).params)

    async def next_message(self, method: str) -> jsonrpc.Message:
        async with asyncio.timeout(SOON_S):
            while True:
                message = await self.inbox.get()
                if message.method == method:
                    return message

    async def ask(self, method: str, params: object) -> Any:
        return msgspec.json.decode(await self.hub.request(method, params, SOON_S))


class RecordingConnection:
    """The link's WebSocket as the hub sees it. `has_room` is what a test says."""

    def __init__(self) -> None:
        self.has_room = True
        self.sent: list[Any] = []
        self.closed: list[tuple[int, str]] = []

    def send(self, payload: bytes) -> None:
        self.sent.append(msgspec.json.decode(payload))

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))


class RunningHub:
    """The hub under test and what a test plays around it."""

    def __init__(self, base: Path, settings: Settings) -> None:
        self.paths = Paths(config=base / "c", state=base / "s", run=base / "r")
        self.paths.make()
        self.settings = FixedSettings(settings)
        self.stores = Stores()
        self.starter = ScriptedStarter()
        log = structlog.get_logger()
        self.hub = Hub(
            settings=self.settings,
            probe=self.stores,
            deletes=Deletes(self.paths),
            random=os.urandom,
            log=log,
        )
        self.hub.children.starter = self.starter
        self.server = Server(self.hub, self.paths, self.stores, log)
        self.link = LinkClient(self.hub, log)
        self.hub.on_change = self.link.changed
        self._closers: list[Callable[[], None]] = []

    async def client(
        self, *, initialize: bool = True, asks: dict[str, Any] | None = None
    ) -> RecordingClient:
        """A client that is connected, and `asks` for these extensions."""
        client = RecordingClient()
        hello = await client.hub.connect(self.paths.socket)
        client.number = hello.client
        self._closers.append(client.hub.close)
        if initialize:
            lembas = {"protocol": 3, **(asks or {})}
            await client.ask("initialize", {"clientCapabilities": {"_meta": {"lembas": lembas}}})
        return client

    async def dial(self, hello: Hello, channel: str) -> ScriptedProcess:
        """Connect a process with this hello."""
        process = ScriptedProcess(channel)
        process.peer = await connect(self.paths.socket, hello, process)
        self._closers.append(process.close)
        return process

    async def process(self, assignment: Assignment, **session: Any) -> ScriptedProcess:
        """Play the process of an assignment: it is this very process, by its pid."""
        self.hub.children.process_started(assignment.spawn, os.getpid())
        channel = assignment.channel
        hello = Hello(role=assignment.role, build="test", pid=os.getpid(), spawn=assignment.spawn)
        if assignment.role == "worker":
            about = SessionHello(channel, 1, stored=not assignment.new, **session)
            hello = msgspec.structs.replace(hello, session=about)
        elif assignment.role == "pty":
            hello = msgspec.structs.replace(hello, terminal=TerminalHello(channel))
        return await self.dial(hello, channel)

    async def session(self, client: RecordingClient) -> ScriptedProcess:
        """A session that this client has made, with its worker."""
        asked = client.hub.start("session/new", {"cwd": "/p"})
        worker = await self.process(await self.starter.next())
        worker.answer(await worker.next_method("session/new"), {"sessionId": worker.channel})
        worker.state(busy=False)
        await asyncio.wait_for(asked, SOON_S)
        self.stores.known[worker.channel] = Probe(exists=True, locked_by=os.getpid())
        return worker

    async def attach(
        self, client: RecordingClient, worker: ScriptedProcess, **params: Any
    ) -> Attached:
        """The client attaches, which the worker answers; what the worker is told of it then."""
        asked = client.hub.start("_hub/attach", {"sessionId": worker.channel, **params})
        result = {"sessionId": worker.channel, "seq": "1:0"}
        worker.answer(await worker.next_method("_hub/attach"), result)
        told = await worker.next(kinds.ATTACHED)
        await asyncio.wait_for(asked, SOON_S)
        return msgspec.json.decode(told.payload, type=Attached)

    def close(self) -> None:
        for close in self._closers:
            close()


@asynccontextmanager
async def running_hub(base: Path, settings: Settings | None = None) -> AsyncIterator[RunningHub]:
    """A hub that listens below `base`; everything is closed at the end."""
    running = RunningHub(base, settings or Settings())
    listening = await serve(bind(running.paths.socket), running.server, AssemblyBudget())
    try:
        yield running
    finally:
        listening.close()
        running.close()
        running.server.close("the test is over")
        await running.server.closed(SOON_S)
        running.hub.close()
