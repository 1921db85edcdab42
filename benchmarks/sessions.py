"""Starting, holding and adopting sessions, against an interpreter of its own for each."""

import asyncio
import os
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks.install import Install
from benchmarks.measure import Figure, median
from lembasd import __version__
from lembasd.device import credentials
from lembasd.ipc.client import HubClient
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import ids, jsonrpc
from lembasd.protocol.control import Attached, SessionState, Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello
from lembasd.protocol.spawn import FORK, Assignment
from lembasd.worker.measure import proportional
from lembasd.zygote.wire import Control
from tests.support.scripted_model import ScriptedModel

#: alternating starts of the two ways
STARTS: Final = 9
SESSIONS: Final = 100
#: cold starts, two at a time, that the time of SESSIONS of them is reckoned from
COLD_SAMPLE: Final = 10
_MIB: Final = 1 << 20
_TIMEOUT_S: Final = 30.0


class ColdHub:
    """The least hub that a worker needs to answer one session/new."""

    def __init__(self, install: Install, settings: Settings) -> None:
        self._install = install
        self._settings = settings
        self.answered: dict[str, asyncio.Future[bytes]] = {}
        #: what each worker says that it uses
        self.pss_bytes: dict[str, int] = {}

    async def listen(self) -> asyncio.Server:
        return await serve(bind(self._install.paths.socket), self, AssemblyBudget())

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        assert hello.session is not None
        session = hello.session.session_id
        peer.send_hello(Hello(role="hub", build=__version__, pid=os.getpid()))
        attached = msgspec.json.encode(Attached(1, protocol=3, show=True, local=True))
        new = jsonrpc.request(1, "session/new", self._install.new_session_params())
        for frame in (
            Envelope(
                kind=kinds.SETTINGS, channel=session, payload=msgspec.json.encode(self._settings)
            ),
            Envelope(kind=kinds.ATTACHED, channel=session, client=1, payload=attached),
            Envelope(kind=kinds.RPC, channel=session, client=1, request=1, payload=new),
        ):
            peer.send(frame)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == kinds.RPC and message.request:
            self.answered[message.channel].set_result(message.payload)
        elif message.kind == kinds.STATE:
            state = msgspec.json.decode(message.payload, type=SessionState)
            self.pss_bytes[message.channel] = state.pss_bytes

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        pass


class Cold(NamedTuple):
    """A worker with an interpreter of its own. `took`: seconds from its exec to its answer to session/new."""

    took: float
    worker: "subprocess.Popen[bytes]"
    session: str


async def cold_start(install: Install, hub: ColdHub) -> Cold:
    session = ids.session_id(os.urandom(ids.SESSION_RANDOM_BYTES))
    answer = hub.answered[session] = asyncio.get_running_loop().create_future()
    ours, theirs = socket.socketpair()
    begun = time.perf_counter()
    arguments = ["-I", "-m", "lembasd.zygote", "--fd", str(theirs.fileno())]
    with theirs:
        worker = install.spawn(
            *arguments, "--kind", "worker", "--spare", pass_fds=(theirs.fileno(),)
        )
    control = Control(ours)
    # the assignment waits in the socket until the spare has loaded
    control.send(FORK, Assignment(spawn=1, role="worker", channel=session, new=True))
    text = await asyncio.wait_for(answer, _TIMEOUT_S)
    took = time.perf_counter() - begun
    assert jsonrpc.peek(text).result, text
    return Cold(took, worker, session)


def _pss_bytes(process: int, said: int) -> int:
    """The proportional share of memory of a process: as the kernel says it to root, else as the worker said it at its start."""
    try:
        return proportional(Path(f"/proc/{process}/smaps_rollup").read_bytes())
    except OSError:
        return said


async def _status(client: HubClient) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(await client.request("_hub/status", {}))
    return value


async def _connected(client: HubClient, count: int) -> list[dict[str, Any]]:
    """The workers, once `count` are connected and idle."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            workers: list[dict[str, Any]] = (await _status(client))["workers"]
            if len(workers) == count and all(one["state"] == "idle" for one in workers):
                return workers
            await asyncio.sleep(0.05)


class ColdInstall:
    """An install whose workers are interpreters of their own."""

    def __init__(self, install: Install) -> None:
        login = credentials.load(install.paths.credentials_file)
        assert login is not None
        settings = Settings(account=login.account(), worker_idle_s=600.0, model="demo")
        self._install = install
        self._hub = ColdHub(install, settings)

    async def listen(self) -> asyncio.Server:
        return await self._hub.listen()

    async def start(self) -> Cold:
        return await cold_start(self._install, self._hub)

    def pss_bytes(self, cold: Cold) -> int:
        return _pss_bytes(cold.worker.pid, self._hub.pss_bytes.get(cold.session, 0))


async def _starts(warm: Install, client: HubClient, cold: ColdInstall) -> Figure:
    forked, begun = [], []
    for _ in range(STARTS):
        at = time.perf_counter()
        await warm.new_session(client)
        forked.append(time.perf_counter() - at)
        started = await cold.start()
        begun.append(started.took)
        started.worker.kill()
        await asyncio.to_thread(started.worker.wait)
    new, exec_ = median(forked), median(begun)
    basis = f"session/new {new * 1e3:.1f} ms, with an interpreter of its own {exec_ * 1e3:.0f} ms; {STARTS} pairs"
    return Figure(
        "session/new against python -m", exec_ / new, "x", 12, 25, higher=True, basis=basis
    )


async def _hundred(warm: Install, client: HubClient, cold: ColdInstall) -> list[Figure]:
    before = len((await _status(client))["workers"])
    at = time.perf_counter()
    await asyncio.gather(*(warm.new_session(client) for _ in range(SESSIONS - before)))
    took = (time.perf_counter() - at) * SESSIONS / (SESSIONS - before)
    workers = await _connected(client, SESSIONS)
    pss = median([_pss_bytes(one["pid"], one["pss_bytes"]) for one in workers])

    at = time.perf_counter()
    started: list[Cold] = []
    for _ in range(COLD_SAMPLE // 2):
        started += await asyncio.gather(cold.start(), cold.start())
    cold_s = (time.perf_counter() - at) * SESSIONS / COLD_SAMPLE
    separate = median([cold.pss_bytes(one) for one in started])
    for one in started:
        one.worker.kill()
        await asyncio.to_thread(one.worker.wait)
    basis = f"median of {SESSIONS} idle workers"
    apart = f"an interpreter of its own {separate / _MIB:.1f} MB, {COLD_SAMPLE} of them"
    up = f"{took:.2f} s for {SESSIONS}; {cold_s:.1f} s by {COLD_SAMPLE} interpreters, two at a time"
    return [
        Figure("idle session's PSS", pss / _MIB, "MB", 5, 3.5, higher=False, basis=basis),
        Figure(
            "idle session's PSS, share", pss / separate, "", 0.25, 0.2, higher=False, basis=apart
        ),
        Figure("100 sessions up, share", took / cold_s, "", 1 / 20, 1 / 36, higher=False, basis=up),
    ]


def _logged(install: Install, event: str, hub: int) -> list[float]:
    """When the hub logged `event`, in seconds."""
    lines = (install.paths.log / "lembasd.jsonl").read_bytes().splitlines()
    seen = [msgspec.json.decode(line) for line in lines]
    return [
        datetime.fromisoformat(one["timestamp"]).timestamp()
        for one in seen
        if one.get("event") == event and one.get("pid") == hub
    ]


async def _adoption(install: Install, killed: "subprocess.Popen[bytes]") -> Figure:
    killed.kill()
    await asyncio.to_thread(killed.wait)
    hub = await install.start_hub()
    client = await install.client()
    await _connected(client, SESSIONS)
    client.close()
    adopted = _logged(install, "worker_adopted", hub.pid)
    assert len(adopted) == SESSIONS, len(adopted)
    listening = _logged(install, "hub_listening", hub.pid)[0]
    half = sorted(adopted)[SESSIONS // 2] - listening
    return Figure(
        "100 sessions adopted by a new hub",
        max(adopted) - listening,
        "s",
        1.0,
        0.2,
        higher=False,
        basis=f"from listening to the last; half in {half:.2f} s",
    )


async def measure() -> list[Figure]:
    """Worker starts, memory, a hundred at once, adoption."""
    async with (
        ScriptedModel() as server,
        Install(server.base_url) as warm,
        Install(server.base_url) as other,
    ):
        server.models = [{"id": "demo"}]
        cold = ColdInstall(other)
        listening = await cold.listen()
        hub = await warm.start_hub()
        client = await warm.client()
        figures = [await _starts(warm, client, cold)]
        figures += await _hundred(warm, client, cold)
        client.close()
        figures.append(await _adoption(warm, hub))
        listening.close()
    return figures
