"""The hub's socket: who connects, whose hello is accepted, and what each role's frames mean."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import anyio
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from lembasd import __version__
from lembasd.device import descriptors, milestones, process_tree
from lembasd.device.paths import Paths
from lembasd.hub.core import inputs
from lembasd.hub.core.admission import Facts, refusal
from lembasd.hub.core.table import UTILITY
from lembasd.hub.ports import LocalSink
from lembasd.hub.processes import (
    ConnectedProcess,
    TerminalProcess,
    UtilityProcess,
    WorkerProcess,
)
from lembasd.hub.runner import Hub, StoreProbe
from lembasd.hub.spawn.api import HelperStatus
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import PROTOCOL, Hello, Role, common_protocol
from lembasd.protocol.ids import is_terminal_id
from lembasd.store import agents

#: how often it is looked whether everything was taken
FLUSH_LOOK_S: Final = 0.01


class Stranger(Struct, frozen=True):
    """A process of a version that has no protocol in common with this one, for `lembasd status`."""

    role: Role
    channel: str
    pid: int
    version: str
    protocol: tuple[int, int]


class LocalClient:
    """A client on the socket."""

    def __init__(self, number: int, sink: LocalSink) -> None:
        self.number = number
        self.sink = sink


class Server:
    """The handler of every peer of the hub socket (`ipc.peer.PeerHandler`)."""

    def __init__(
        self, hub: Hub, paths: Paths, probe: StoreProbe, log: FilteringBoundLogger
    ) -> None:
        self._hub = hub
        self._paths = paths
        #: what starts processes, and for whom
        self.helpers: Callable[[], Iterable[HelperStatus]] = tuple
        self._probe = probe
        self._log = log
        self._processes: dict[Peer, ConnectedProcess] = {}
        self._clients: dict[Peer, LocalClient] = {}
        #: hellos of processes whose starter has not told their pid yet
        self._parked: dict[int, tuple[Peer, Hello]] = {}
        #: by pid; each dials again every second
        self._strangers: dict[int, Stranger] = {}
        self._gone = asyncio.Event()
        hub.children.on_pid_known = self.pid_known

    # ── hello ───────────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        channel = _channel(hello)
        if channel and self._hub.children.is_starting(hello.spawn, channel):
            self._parked[hello.spawn] = (peer, hello)
            return
        self._admit(peer, hello)

    def pid_known(self, spawn: int) -> None:
        """The starter told the pid of a process that may have been faster with its hello."""
        parked = self._parked.pop(spawn, None)
        if parked is not None and parked[0].is_open:
            self._admit(*parked)

    def _admit(self, peer: Peer, hello: Hello) -> None:
        if not _can_be_judged(peer):
            # refused, a terminal would hang up and a person's client count as an agent's: cut off, they come again
            self._log.warning("peer_not_judged", role=hello.role, peer_pid=peer.pid)
            peer.abort("the hub is out of descriptors")
            return
        refused = refusal(hello, self._facts(peer, hello))
        if refused:
            self._log.warning("peer_refused", role=hello.role, peer_pid=peer.pid, error=refused)
            if common_protocol(PROTOCOL, hello.protocol) is None:
                self._note_stranger(peer, hello)
            milestones.reached("hub.refused", role=hello.role, process_pid=peer.pid)
            peer.send_hello(self._hello(refused=refused))
            peer.close(refused)
        elif hello.role == "client":
            sink = LocalSink(peer)
            is_agents = self._is_agents(peer, hello.role)
            if is_agents:
                self._log.warning("agents_client", peer_pid=peer.pid)
            number = self._hub.client_joined(sink, local=True, pid=peer.pid, agents=is_agents)
            self._clients[peer] = LocalClient(number, sink)
            peer.send_hello(self._hello(client=number))
        else:
            peer.send_hello(self._hello())
            self._join(peer, hello)

    def _note_stranger(self, peer: Peer, hello: Hello) -> None:
        if peer.pid is not None and hello.role != "client":
            self._strangers[peer.pid] = Stranger(
                role=hello.role,
                channel=_channel(hello),
                pid=peer.pid,
                version=hello.build,
                protocol=hello.protocol,
            )

    def strangers(self) -> list[Stranger]:
        """The processes of this install that run and that this version cannot speak with."""
        self._strangers = {
            pid: one
            for pid, one in self._strangers.items()
            if process_tree.started_at(pid) is not None
        }
        return list(self._strangers.values())

    def _hello(self, *, client: int = 0, refused: str = "") -> Hello:
        return Hello(role="hub", build=__version__, pid=os.getpid(), client=client, refused=refused)

    def _facts(self, peer: Peer, hello: Hello) -> Facts:
        channel = _channel(hello)
        if not channel:
            return Facts(pid=peer.pid)
        connected = self._hub.processes.get(channel)
        started = self._hub.children.started_pid(channel)
        return Facts(
            pid=peer.pid,
            below_worker=started != peer.pid and self._is_agents(peer, hello.role),
            started_pid=started,
            lock_pid=self._probe(channel).locked_by if hello.role == "worker" else None,
            connected_pid=connected.pid if connected is not None else None,
        )

    def _is_agents(self, peer: Peer, role: Role) -> bool:
        """Whether a session's tools started the peer. Not known where the platform names no pid."""
        if peer.pid is None:
            return False
        if not peer.is_same:
            return True
        pids, helpers = self._hub.children.pids(), list(self.helpers())
        known = agents.Known(
            workers=self._hub.children.worker_pids(),
            starters={os.getpid(), *(one.pid for one in helpers if one.kind == "worker")},
            terminals={
                *(pid for pid, channel in pids.items() if is_terminal_id(channel)),
                *(one.pid for one in helpers if one.kind == "pty"),
            },
        )
        if role == "worker":
            return agents.is_below_worker(self._paths, peer.pid, known)
        return agents.is_agents(self._paths, peer.pid, known)

    def _join(self, peer: Peer, hello: Hello) -> None:
        pid = peer.pid if peer.pid is not None else hello.pid
        process: ConnectedProcess
        joined: inputs.LifeInput
        if hello.session is not None:
            process = WorkerProcess(self._hub, peer, hello.session.session_id, pid)
            joined = inputs.WorkerJoined(hello.session, pid)
        elif hello.terminal is not None:
            process = TerminalProcess(self._hub, peer, hello.terminal.terminal_id, pid)
            joined = inputs.TerminalJoined(hello.terminal, pid)
        else:
            process = UtilityProcess(self._hub, peer, UTILITY, pid)
            joined = inputs.UtilityJoined(pid)
        self._processes[peer] = process
        self._hub.process_joined(process, joined)

    # ── messages ────────────────────────────────────────────────────────────────────────────────

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        process = self._processes.get(peer)
        if process is not None:
            process.heard = True
            if process.unresponsive:
                self._hub.on_answer(process)
            if message.kind == kinds.RPC:
                process.rpc(message)
            elif message.kind != kinds.PONG:
                process.control(message)
            return
        client = self._clients.get(peer)
        if client is not None and message.kind == kinds.RPC:
            self._hub.client_said(client.number, message.payload)
        elif client is not None and message.kind == kinds.INPUT:
            self._hub.client_typed(client.number, message.channel, message.payload)
        else:
            peer.answer_unknown(message)

    def peer_writable(self, peer: Peer) -> None:
        client = self._clients.get(peer)
        if client is not None:
            client.sink.drained()
            port = self._hub.ports.get(client.number)
            if port is not None:
                port.pump()

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self._gone.set()
        for spawn, (parked, _hello) in list(self._parked.items()):
            if parked is peer:
                del self._parked[spawn]
        client = self._clients.pop(peer, None)
        if client is not None:
            self._hub.client_left(client.number)
            return
        process = self._processes.pop(peer, None)
        if process is not None:
            self._log.info("process_lost", channel=process.channel, error=reason)
            self._hub.process_lost(process)

    @property
    def has_parked(self) -> bool:
        """Whether a process has said hello whose start was not told yet."""
        return bool(self._parked)

    async def flushed(self, within_s: float) -> None:
        """Wait until the kernel has taken everything that was sent, as far as the others read."""
        until = asyncio.get_running_loop().time() + within_s
        while any(peer.buffered_bytes for peer in self._peers()):
            if asyncio.get_running_loop().time() > until:
                return
            await asyncio.sleep(FLUSH_LOOK_S)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────

    def close(self, reason: str) -> None:
        """Close every connection after what it holds is written."""
        for peer in list(self._peers()):
            peer.close(reason)

    async def closed(self, within_s: float) -> None:
        """Wait until every connection is gone; those that are not by then are aborted."""
        with anyio.move_on_after(within_s):
            while list(self._peers()):
                self._gone.clear()
                await self._gone.wait()
        for peer in list(self._peers()):
            peer.abort("the hub ends")

    def _peers(self) -> Iterator[Peer]:
        yield from self._clients
        yield from self._processes
        for peer, _hello in self._parked.values():
            yield peer


def _can_be_judged(peer: Peer) -> bool:
    """Whether the kernel can be asked who the peer is. One that was gone when it was accepted is nobody."""
    return peer.pid is None or (peer.started_at is not None and descriptors.are_left())


def _channel(hello: Hello) -> str:
    """The channel that a process' hello is for; "" for a client's, or one that names none."""
    match hello.role:
        case "worker":
            return hello.session.session_id if hello.session is not None else ""
        case "pty":
            return hello.terminal.terminal_id if hello.terminal is not None else ""
        case "utility":
            return UTILITY
        case _:
            return ""
