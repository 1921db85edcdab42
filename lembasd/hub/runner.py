"""Performs what the router decides: sockets, processes, timers. Holds no policy of its own."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, assert_never

from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from lembasd.device import milestones
from lembasd.hub.alarms import Alarms
from lembasd.hub.children import Children
from lembasd.hub.core import effects, inputs, methods
from lembasd.hub.core.clients import Resend
from lembasd.hub.core.methods import Target
from lembasd.hub.core.router import Router
from lembasd.hub.counts import Counts
from lembasd.hub.introduction import initialize_result
from lembasd.hub.ports import ClientPort, Sink
from lembasd.hub.processes import ConnectedProcess
from lembasd.protocol import envelope as kinds
from lembasd.protocol import ids, jsonrpc
from lembasd.protocol.control import Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.limits import MIB
from lembasd.store.sessions import Probe

#: bytes that wait for one process to read them; more means it is stuck, and its connection is ended (it redials)
PROCESS_BACKLOG_BYTES: Final = 128 * MIB


#: how a session's store stands: small stats of our own state directory only
StoreProbe = Callable[[str], Probe]


class SettingsReader(Protocol):
    """The device's settings as its files say them now."""

    def current(self) -> Settings: ...


class KeptDeletes(Protocol):
    """The sessions deleted here of which the instance has not heard: small looks at our own state directory only."""

    def kept(self) -> list[str]: ...

    def forget(self, session_id: str) -> None: ...


class Desk(Protocol):
    """Answers what the hub answers itself."""

    def status(self) -> object:
        """What `_hub/status` is answered with."""

    def stop(self) -> None:
        """Begin the stop."""

    def reload(self, client: int, message_id: bytes) -> None:
        """Begin a reload; the client is answered when it cannot be."""


class Hub:
    """One hub's router with everything it acts on. Its methods are called from the loop and never block."""

    def __init__(
        self,
        *,
        settings: SettingsReader,
        probe: StoreProbe,
        deletes: KeptDeletes,
        random: Callable[[int], bytes],
        log: FilteringBoundLogger,
    ) -> None:
        first = int.from_bytes(random(6), "big")
        self.router = Router(first)
        self.ports: dict[int, ClientPort] = {}
        #: the pid of each local client
        self.client_pids: dict[int, int | None] = {}
        self.processes: dict[str, ConnectedProcess] = {}
        self.log = log
        self.counts = Counts()
        self.alarms = Alarms(log)
        self.children = Children(self, first & 0x7FFFFFFF)
        self.desk: Desk | None = None
        #: called when settings or a session's state changed
        self.on_change: Callable[[], None] = lambda: None
        #: called when a process that did not answer says something
        self.on_answer: Callable[[ConnectedProcess], None] = lambda _process: None
        self._settings = settings
        self._probe = probe
        self._deletes = deletes
        self._random = random
        self._next_client = first
        self._low_disk = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._inputs: deque[inputs.Input] = deque()
        self._feeding = False
        self._loop = asyncio.get_running_loop()
        self.refresh_settings()

    # ── the machine ─────────────────────────────────────────────────────────────────────────────

    def feed(self, what: inputs.Input) -> None:
        """Have the router take `what`. One at a time: what an effect brings about comes after it."""
        self._inputs.append(what)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._inputs:
                for effect in self.router.handle(self._inputs.popleft(), self._loop.time()):
                    self._perform(effect)
        finally:
            self._feeding = False

    def _perform(self, effect: effects.Effect) -> None:
        match effect:
            case effects.ToClient(client, frame):
                self._to_client(client, frame)
            case effects.Restart(client, session):
                self.ports[client].restart(session)
            case effects.ToProcess(channel, frame):
                self._to_process(channel, frame)
            case effects.CatchUp(client, session, epoch, seq):
                self.ports[client].catch_up(session, epoch, seq)
            case effects.SetTimer(key, at):
                self._set_timer(key, at)
            case effects.CancelTimer(key):
                self._cancel_timer(key)
            case effects.Probe(session):
                seen = self._probe(session)
                held = seen.locked_by is not None
                self.feed(inputs.Probed(session, seen.exists, held))
            case effects.Start():
                self.children.start(effect)
            case effects.Kill(channel):
                self.children.kill(channel)
            case effects.EndProcess(channel, why):
                self.log.warning("worker_killed", session_id=channel, error=why)
                self.children.end(channel)
            case effects.Looping(channel, loops):
                self.alarms.loop(channel, loops=loops)
            case _:
                self._answer_effect(effect)

    def _answer_effect(
        self,
        effect: effects.Initialize
        | effects.SayDeleted
        | effects.GiveStatus
        | effects.StopHub
        | effects.ReloadHub
        | effects.SessionGone
        | effects.CardSettled
        | effects.Adopted,
    ) -> None:
        match effect:
            case effects.Initialize(client, message_id, extensions):
                local = client in self.client_pids
                self.ports[client].acknowledges = local or extensions.terminal_flow
                self.ports[client].sink.asked(extensions)
                value = initialize_result(
                    self.router.table.settings, local=local, extensions=extensions
                )
                self.say(client, jsonrpc.result(message_id, value))
            case effects.SayDeleted(client):
                for session in self._deletes.kept():
                    params = {"sessionId": session}
                    self.say(client, jsonrpc.notification("_lembas/session/deleted", params))
                    self._deletes.forget(session)
            case effects.GiveStatus(client, message_id):
                self.say(client, jsonrpc.result(message_id, self._own_desk().status()))
            case effects.StopHub(client, message_id):
                self._stop(client, message_id)
            case effects.ReloadHub(client, message_id):
                self._loop.call_soon(self._own_desk().reload, client, message_id)
            case effects.SessionGone(session):
                for port in self.ports.values():
                    port.session_ended(session)
            case effects.CardSettled(client, card, frame):
                port = self.ports[client]
                if not port.queue.card_settled(frame.channel, card):
                    port.deliver(frame)
            case effects.Adopted(session):
                milestones.reached("hub.adopted", session_id=session)
                self.log.info("worker_adopted", session_id=session)
                self.counts.processes_adopted += 1
            case _:
                assert_never(effect)

    def _own_desk(self) -> Desk:
        if self.desk is None:
            raise RuntimeError("the hub has no desk yet")
        return self.desk

    def _stop(self, client: int, message_id: bytes) -> None:
        desk = self._own_desk()
        self.say(client, jsonrpc.result(message_id, {}))
        self._loop.call_soon(desk.stop)

    # ── clients ─────────────────────────────────────────────────────────────────────────────────

    def new_number(self) -> int:
        """A client number that was never used."""
        self._next_client += 1
        return self._next_client

    def client_joined(
        self, sink: Sink, *, local: bool, pid: int | None = None, agents: bool = False
    ) -> int:
        """A client is connected; its number. `agents`: a session's tools started it."""
        number = self.new_number()
        self.counts.clients_joined += 1
        self.ports[number] = ClientPort(number, sink, self)
        if local:
            self.client_pids[number] = pid
            self.ports[number].acknowledges = True
        self.feed(inputs.ClientJoined(number, local, agents))
        return number

    def client_said(self, client: int, text: bytes) -> None:
        """A JSON-RPC text of a client; one that cannot be read is answered, the connection stays."""
        try:
            message = jsonrpc.peek(text)
        except RequestRefused as refused:
            self.say(client, jsonrpc.refusal(b"", refused))
            return
        fresh = ""
        if not message.is_notification:
            # an answer to a card is held to the limits too
            self.refresh_settings()
        if message.is_request:
            found = methods.target(message.method, local=client in self.client_pids)
            if found is Target.NEW_SESSION:
                fresh = ids.session_id(self._random(ids.SESSION_RANDOM_BYTES))
            elif found is Target.NEW_TERMINAL:
                fresh = ids.terminal_id(self._random(ids.TERMINAL_RANDOM_BYTES))
        self.feed(inputs.ClientSaid(client, message, fresh))

    def client_typed(self, client: int, terminal: str, keys: bytes) -> None:
        """Keys of a local client for a terminal that it looks at; others are nobody's. Short, as what a process says is."""
        attached = self.router.table.attachments.find(terminal, client)
        if attached is not None and attached.frames and ids.is_terminal_id(terminal):
            frame = Envelope(kind=kinds.INPUT, channel=terminal, client=client, payload=keys)
            self._to_process(terminal, frame)

    def client_left(self, client: int) -> None:
        self.feed(inputs.ClientLeft(client))
        self.ports.pop(client, None)
        self.client_pids.pop(client, None)

    def say(self, client: int, payload: bytes) -> None:
        """Send a finished message to one client; one that is gone is told nothing."""
        self._to_client(client, Envelope(kind=kinds.RPC, payload=payload))

    def _to_client(self, client: int, frame: Envelope) -> None:
        port = self.ports.get(client)
        if port is not None:
            port.deliver(frame)

    def refresh_settings(self) -> None:
        """Take in what changed on the disk (a stat of each file when nothing did)."""
        settings = self._settings.current()
        if self._low_disk:
            settings = replace(settings, low_disk=True)
        if settings != self.router.table.settings:
            self.feed(inputs.SettingsChanged(settings))
            self.on_change()

    def disk_is_low(self, low: bool) -> None:
        """Hardly any room is left where sessions are kept, or there is some again."""
        self._low_disk = low
        self.refresh_settings()

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    def process_joined(self, process: ConnectedProcess, joined: inputs.LifeInput) -> None:
        """A process' hello was accepted. A connection that it had before is replaced."""
        before = self.processes.get(process.channel)
        if before is not None:
            before.peer.abort("the process has connected again")
            self.process_lost(before)
        self.processes[process.channel] = process
        self.children.joined(process.pid, process.channel)
        self.feed(joined)

    def process_lost(self, process: ConnectedProcess) -> None:
        """The connection is gone; called once for each that joined."""
        if self.processes.get(process.channel) is not process:
            return
        del self.processes[process.channel]
        self.feed(inputs.ConnectionLost(process.channel))
        self.children.connection_lost(process.channel)
        self.on_change()

    def _to_process(self, channel: str, frame: Envelope) -> None:
        process = self.processes.get(channel)
        if process is None:
            return  # lost in this turn of the loop; the router is about to hear of it
        if frame.kind == kinds.STOP:
            process.peer.send_control(frame)
            return
        process.peer.send(frame)
        if process.peer.queued_bytes > PROCESS_BACKLOG_BYTES:
            process.peer.abort("the process does not read")

    def ask_resend(self, client: int, resend: Resend) -> None:
        frame = Envelope(
            kind=kinds.RESEND,
            channel=resend.session,
            epoch=resend.epoch,
            seq=resend.seq,
            client=client,
        )
        self._to_process(resend.session, frame)

    def output_taken(self, terminal: str, client: int, count: int) -> None:
        self._credit(kinds.CREDIT, terminal, client, count)

    def discard_output(self, terminal: str) -> None:
        """The terminal was interrupted: what is queued of its output is not wanted any more."""
        for client in self.router.audience(terminal).everyone:
            count = self.ports[client].queue.discard(terminal)
            self._credit(kinds.DISCARDED, terminal, client, count)

    def _credit(self, kind: str, terminal: str, client: int, count: int) -> None:
        process = self.processes.get(terminal)
        if count and process is not None and process.counts_output:
            payload = b'{"bytes":%d}' % count  # control.Credit, for each chunk of output
            frame = Envelope(kind=kind, channel=terminal, client=client, payload=payload)
            self._to_process(terminal, frame)

    def call_later(self, delay_s: float, what: Callable[[], None]) -> None:
        self._loop.call_later(delay_s, what)

    # ── timers ──────────────────────────────────────────────────────────────────────────────────

    def _set_timer(self, key: str, at: float) -> None:
        self._cancel_timer(key)
        self._timers[key] = self._loop.call_at(at, self._timer, key)

    def _cancel_timer(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _timer(self, key: str) -> None:
        self._timers.pop(key, None)
        self.feed(inputs.TimerFired(key))
        # a session that worked may have been given up
        self.on_change()

    def close(self) -> None:
        """Forget the timers; the sockets are the server's to close."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
