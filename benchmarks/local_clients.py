"""Clients of this machine, with 250 sessions in the store and 25 of them at work; all clients are in this process."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.install import Install
from benchmarks.measure import Figure, median
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import connect
from lembasd.ipc.peer import Peer
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello, SessionHello
from lembasd.store import catalogue
from lembasd.store.journal import Journal
from tests.support.hub_process import ScriptedProcess
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.stored_sessions import session_id, store

STORED: Final = 250
WORKING: Final = 25
CLIENTS: Final = 25
EVENTS: Final = 200
CARDS: Final = 40
ATTACHES: Final = 60
LISTS: Final = 60
_TIMEOUT_S: Final = 60.0
_LEMBAS: Final = {"clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}}}


class Follower(HubClient):
    """A client that says when something has come to it; what it does not look for is as any client reads it."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.wanted = b""
        self.came = asyncio.Event()
        self.payload = b""
        self.marked_at = 0.0
        self._mark = b""

    def mark(self, text: bytes) -> None:
        """From now on `marked_at` is when a message with this text comes."""
        self._mark = text

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if self._mark and self._mark in message.payload:
            self._mark, self.marked_at = b"", time.perf_counter()
        if self.wanted and self.wanted in message.payload:
            self.wanted, self.payload = b"", message.payload
            self.came.set()
        else:
            super().peer_message(peer, message)

    def want(self, text: bytes) -> None:
        """From now on `came` is set when a message with this text has come."""
        self.came.clear()
        self.wanted = text

    async def begin(self, install: Install) -> None:
        await self.connect(install.paths.socket)
        await self.request("initialize", {"protocolVersion": 1, **_LEMBAS})

    async def ask(self, method: str, **params: Any) -> Any:
        return msgspec.json.decode(await self.request(method, params))


class _Raw(asyncio.Protocol):
    """A reader of the raw fan-out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = 0
        self.came = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left <= 0:
            self.came.set()


async def _all(events: list[asyncio.Event]) -> None:
    async with asyncio.timeout(_TIMEOUT_S):
        for one in events:
            await one.wait()


async def _raw_fan_out(install: Install, size: int) -> float:
    """Milliseconds from a write of `size` bytes until each of the others has read them."""
    loop = asyncio.get_running_loop()
    path = str(install.base / "raw")
    server = install.spawn(
        "-m", "benchmarks.fan_out", path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    await asyncio.to_thread(server.stdout.readline)
    readers = [
        (await loop.create_unix_connection(lambda: _Raw(size), path))[1] for _ in range(CLIENTS)
    ]
    speaker, _ = await loop.create_unix_connection(asyncio.Protocol, path)
    took = []
    for _ in range(EVENTS):
        for one in readers:
            one.left = size
            one.came.clear()
        begun = time.perf_counter()
        speaker.write(b"x" * size)
        await _all([one.came for one in readers])
        took.append((time.perf_counter() - begun) * 1e3)
    assert server.stdin is not None
    server.stdin.close()
    await asyncio.to_thread(server.wait)
    return median(took)


async def _events(install: Install) -> Figure:
    """A session whose worker is played here: what it says goes to every client."""
    session = session_id(0)
    journal = Journal.open(install.paths, session)
    worker = ScriptedProcess(session)
    about = SessionHello(session, epoch=1)
    hello = Hello(role="worker", build="benchmark", pid=os.getpid(), session=about)
    worker.peer = await connect(install.paths.socket, hello, worker)
    followers = [Follower() for _ in range(CLIENTS)]
    for one in followers:
        await one.begin(install)
        asked = one.start("_hub/attach", {"sessionId": session})
        worker.answer(await worker.next_method("_hub/attach"), {"sessionId": session, "seq": "1:0"})
        await asyncio.wait_for(asked, _TIMEOUT_S)
    took = []
    for number in range(EVENTS):
        text = f"piece {number:06d} of a text"
        for one in followers:
            one.want(text.encode())
        begun = time.perf_counter()
        worker.say(text)
        await _all([one.came for one in followers])
        took.append((time.perf_counter() - begun) * 1e3)
    size = len(followers[0].payload)
    for one in followers:
        one.close()
    worker.close()
    journal.close()
    raw = await _raw_fan_out(install, size)
    basis = f"{median(took):.2f} ms; raw {raw:.2f} ms; {EVENTS} of {size} bytes"
    return Figure(
        "event to 25 clients against a raw fan-out",
        median(took) / raw,
        "x",
        3,
        2,
        higher=False,
        basis=basis,
    )


async def _cards(install: Install, model: ScriptedModel) -> Figure:
    """From the model's whole reply (`usage`) to the card, and from the answer to its effect: all but the person."""
    person = Follower()
    await person.begin(install)
    made = await person.ask(
        "session/new", cwd=str(install.project), mcpServers=[], _meta={"mode": "manual"}
    )
    session = made["sessionId"]
    took, ways = [], []
    for number in range(CARDS):
        hold = asyncio.Event()
        call = ("bash", {"command": f"touch f{number}"})
        model.script(Reply(text="so", hold=hold, calls=[call]), Reply("done"))
        person.want(b'"type":"text","text":"o"')
        prompt = [{"type": "text", "text": "go"}]
        turn = person.start("session/prompt", {"sessionId": session, "prompt": prompt})
        await _all([person.came])
        person.mark(b'"type":"usage"')
        person.want(b'"session/request_permission"')
        hold.set()
        await _all([person.came])
        begun = person.marked_at
        asked = time.perf_counter() - begun
        card = jsonrpc.peek(person.payload)
        person.want(b'"type":"tool_denied"')
        begun = time.perf_counter()
        person.reply(card, {"outcome": {"outcome": "selected", "optionId": "deny"}})
        await _all([person.came])
        answered = time.perf_counter() - begun
        took.append((asked + answered) * 1e3)
        ways.append((asked * 1e3, answered * 1e3))
        await turn
    person.close()
    to_card, to_call = (median([one[way] for one in ways]) for way in (0, 1))
    basis = f"{to_card:.1f} ms from the model's reply to the card, {to_call:.1f} from the answer to the call; {CARDS} cards"
    return Figure("approval round trip, p50", median(took), "ms", 6.6, 3, higher=False, basis=basis)


async def _attaches(install: Install, sessions: list[str]) -> Figure:
    took = []
    for number in range(ATTACHES):
        one = Follower()
        begun = time.perf_counter()
        await one.begin(install)
        joined = await one.ask("_hub/attach", sessionId=sessions[number % len(sessions)])
        took.append((time.perf_counter() - begun) * 1e3)
        assert joined["snapshot"]["turnId"], joined
        one.close()
    basis = f"connect, initialize, snapshot of a turn that runs; {ATTACHES} times"
    return Figure(
        "attach to first output, p50", median(took), "ms", 16, 8, higher=False, basis=basis
    )


def _lists(install: Install) -> Figure:
    took = []
    for _ in range(LISTS):
        begun = time.perf_counter()
        found = catalogue.sessions(install.paths)
        took.append((time.perf_counter() - begun) * 1e3)
        assert len(found) == STORED, len(found)
    return Figure(
        "list of 250 sessions, p50",
        median(took),
        "ms",
        13,
        8,
        higher=False,
        basis=f"{LISTS} times, {WORKING} at work",
    )


async def _at_work(install: Install, model: ScriptedModel, client: HubClient) -> list[str]:
    """Sessions whose turn has begun and waits for its model."""
    hold = asyncio.Event()
    sessions = []
    for _ in range(WORKING):
        session = await install.new_session(client)
        model.script(Reply(text="thinking", hold=hold))
        prompt = [{"type": "text", "text": "go"}]
        client.start("session/prompt", {"sessionId": session, "prompt": prompt})
        await asyncio.wait_for(model.asked.get(), _TIMEOUT_S)
        sessions.append(session)
    return sessions


def _fill(install: Install) -> None:
    Path(install.paths.sessions).mkdir(parents=True, exist_ok=True)
    said = [(f"prompt {n}", f"An answer of some length to prompt {n}. " * 20) for n in range(20)]
    for number in range(STORED - WORKING):
        store(install.paths, number, *said, title=f"Session {number}", output="x" * 2000)


async def measure() -> list[Figure]:
    """Events to many clients, cards, attaches, the list."""
    async with ScriptedModel() as model, Install(model.base_url) as install:
        model.models = [{"id": "demo"}]
        await asyncio.to_thread(_fill, install)
        await install.start_hub()
        client = await install.client()
        sessions = await _at_work(install, model, client)
        figures = [await asyncio.to_thread(_lists, install)]
        figures.append(await _events(install))
        figures.append(await _attaches(install, sessions))
        client.close()
        figures.append(await _cards(install, model))
    return figures
