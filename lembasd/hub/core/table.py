"""What the hub knows: its clients, and the process of each session and terminal. Shared by the router's halves."""

import re
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.hub.core import effects
from lembasd.hub.core.approvals import Approvals
from lembasd.hub.core.attachments import Attachments
from lembasd.hub.core.ends import WorkerEnds
from lembasd.hub.core.neighbours import Neighbours
from lembasd.hub.core.requests import Pending, Requests, Waiting
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Attached, Extensions, SessionState, Settings, TerminalState
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import INTERNAL_ERROR
from lembasd.protocol.lembas import SettledBy, SettledHere, SettledMeta
from lembasd.protocol.spawn import SpawnRole

#: epoch and number of a session's message, as a client says which it saw last
_PLACE: Final = re.compile(r"([0-9]{1,18}):([0-9]{1,18})")
#: what a client speaks that does not know questions and plans (link.md, Versions)
FIRST_PROTOCOL: Final = 1
#: the channel of the utility worker's process; no session or terminal has such an id
UTILITY: Final = "utility"


class State(Enum):
    """Where the process of a channel is."""

    #: a session whose store is being looked at
    PROBING = "probing"
    #: a session that is being deleted by the utility worker: what comes for it waits for how that ends
    DELETING = "deleting"
    #: it lives, by its lock or its pid, but is not connected (any more): it is waited for
    AWAITED = "awaited"
    STARTING = "starting"
    LIVE = "live"
    #: a worker that is to be started once another one has made room for it
    WAITING = "waiting"
    #: told to end, and about to
    LEAVING = "leaving"


class Channel(Struct):
    """One session or terminal (or the utility worker) that has, or is about to have, a process."""

    id: str
    role: SpawnRole
    state: State
    pid: int | None = None
    #: messages for the process, in order, until it has said hello
    waiting: list[Waiting] = []
    #: of a session: its store is there (false while session/new is not accepted)
    stored: bool = True
    #: of a session: the link's client was given it
    given: bool = False
    #: of a session: its worker has deleted it and is about to end
    deleted: bool = False
    #: of a session: its worker is about to end, so that another version takes its place
    superseded: bool = False
    #: it is connected and does not answer
    unresponsive: bool = False
    #: of a session: its worker is ended for this: what its turn and whoever waits is told
    ended_for: str = ""
    #: of a session: when it was used last, in uses of the whole hub; it was asked to make room since
    used: int = 0
    asked_to_end: bool = False
    #: of a session: the clients that made it, or whose messages started its process
    openers: frozenset[int] = frozenset()
    session: SessionState = SessionState(busy=False)
    terminal: TerminalState = TerminalState()
    #: of a terminal: the client that opened it, and whether it hangs up with that client
    opener: int = 0
    link: bool = False
    #: of a terminal: it waits for its client's next link when this one is gone
    resume: bool = False
    #: nobody wants it any more: it is stopped as soon as it is connected
    unwanted: str = ""


class Client(Struct):
    """One connection of a client. `protocol` 0: not a LLeMbas client (or not initialized)."""

    number: int
    local: bool
    #: started by a session's tools: it may look, and nothing else
    agents: bool = False
    initialized: bool = False
    protocol: int = 0
    #: it has shown that it knows no question or plan, whatever it says of itself
    outdated: bool = False
    show: bool = False
    extensions: Extensions = Extensions()
    #: by session, the number of the last message that it saw over an earlier link, until it has been given the rest
    seen: dict[str, str] = {}


class Table:
    """The state, and the small steps both halves take. Effects collect in `out`, in order."""

    def __init__(self, first_request: int) -> None:
        self.clients: dict[int, Client] = {}
        self.channels: dict[str, Channel] = {}
        self.attachments = Attachments()
        self.approvals = Approvals()
        self.requests = Requests(first_request)
        self.ends = WorkerEnds()
        self.neighbours = Neighbours()
        self.settings = Settings()
        #: sessions whose worker was ended by the hub, and for what, until the next one has recorded it
        self.ended_for: dict[str, str] = {}
        self._uses = 0
        #: why everything ends; "" while it does not
        self.stopping = ""
        self.out: list[effects.Effect] = []

    @property
    def allows_remote_terminals(self) -> bool:
        """Whether the instance may have terminals on this device now."""
        remote = self.settings.remote
        return remote.enabled and remote.terminal

    # ── to clients ──────────────────────────────────────────────────────────────────────────────

    def say(self, client: int, payload: bytes, channel: str = "") -> None:
        """Queue a finished message for a client."""
        frame = Envelope(kind=kinds.RPC, channel=channel, payload=payload)
        self.out.append(effects.ToClient(client, frame))

    def answer(self, pending: Pending, payload: bytes) -> None:
        """Answer a request that is still open; with that it is not open any more."""
        self.requests.take(pending.number, pending.client)
        self.say(pending.client, payload, pending.channel)

    def refuse(
        self, pending: Pending, code: int, message: str, data: dict[str, Any] | None = None
    ) -> None:
        self.answer(pending, jsonrpc.error(pending.id, code, message, data))

    def fail(self, pending: Pending, message: str, reason: str, *, retryable: bool = False) -> None:
        """Answer with an internal error; `reason` is for programs."""
        data: dict[str, Any] = {"reason": reason}
        if retryable:
            data["retryable"] = True
        self.refuse(pending, INTERNAL_ERROR, message, data)

    # ── to processes ────────────────────────────────────────────────────────────────────────────

    def send(self, channel: str, kind: str, value: object | None = None, **fields: Any) -> None:
        """Send a control frame to the process of `channel`, its payload `value` as JSON."""
        payload = b"" if value is None else msgspec.json.encode(value)
        frame = Envelope(kind=kind, channel=channel, payload=payload, **fields)
        self.out.append(effects.ToProcess(channel, frame))

    def pass_on(self, process: str, channel: str, client: int, number: int, text: bytes) -> None:
        """Send a client's message to a process, untouched."""
        known = self.clients.get(client)
        frame = Envelope(
            kind=kinds.RPC,
            channel=channel,
            client=client,
            request=number,
            payload=text,
            local=known is not None and known.local,
        )
        self.out.append(effects.ToProcess(process, frame))

    def send_settings(self, channel: Channel) -> None:
        """Give a process the device's settings; only an engine is given the login and the MCP servers."""
        settings = self.settings
        if channel.role != "worker":
            settings = msgspec.structs.replace(settings, account=None, mcp=[])
        self.send(channel.id, kinds.SETTINGS, settings)

    def attach(self, channel: Channel, attached: Attached) -> None:
        """Attach a client to a connected process."""
        attached = self.with_opener(channel, attached)
        self.remember(channel, attached)
        if not attached.local:
            channel.given = True
        self.introduce(channel, attached)

    def introduce(self, channel: Channel, attached: Attached) -> None:
        """Tell the process of a client; one that was there before is sent what it missed, and nothing twice."""
        # who is here was given what it missed with the answer to its attach
        place = None if attached.local else _place(attached.since)
        if place is None:
            self.send(channel.id, kinds.ATTACHED, attached)
            return
        self.send(channel.id, kinds.ATTACHED, msgspec.structs.replace(attached, since=None))
        self.out.append(effects.CatchUp(attached.client, channel.id, *place))

    def remember(self, channel: Channel, attached: Attached) -> None:
        """Keep who is attached; what was replayed once is not replayed to the next process."""
        self.attachments.attach(
            channel.id, msgspec.structs.replace(attached, since=None, asks=False)
        )
        client = self.clients.get(attached.client)
        if client is not None:
            client.seen.pop(channel.id, None)

    def with_opener(self, channel: Channel, attached: Attached) -> Attached:
        """`attached` saying whether the session was opened for that client, now or in an earlier life of its process."""
        before = self.attachments.find(channel.id, attached.client)
        opened = attached.client in channel.openers or (before is not None and before.opened)
        return msgspec.structs.replace(attached, opened=opened)

    def outdated(self, client: Client) -> None:
        """The client is one of protocol 1 for the rest of its connection, and every worker of its sessions is told."""
        client.protocol, client.outdated = FIRST_PROTOCOL, True
        for name, attached in self.attachments.speaks(client.number, client.protocol).items():
            channel = self.live(name)
            if channel is not None and channel.role == "worker":
                self.send(name, kinds.ATTACHED, msgspec.structs.replace(attached, known=True))

    def attached(self, client: Client, since: str | None = None) -> Attached:
        return Attached(
            client=client.number,
            protocol=client.protocol,
            show=client.show,
            local=client.local,
            since=since,
        )

    def follower(self, client: Client, session: str) -> Attached:
        """The same, of a session: a link that asks for it is given what it missed of it, once."""
        return self.attached(client, client.seen.get(session))

    def viewer(self, client: Client, *, asks: bool = False) -> Attached:
        """The same, of a terminal."""
        return msgspec.structs.replace(
            self.attached(client),
            flow=client.local or client.extensions.terminal_flow,
            resume=not client.local and client.extensions.terminal_resume,
            frames=client.extensions.terminal_frames,
            asks=asks,
        )

    def settle(
        self, session: str, card: str, clients: list[int], payload: bytes, by: int = 0
    ) -> None:
        """Tell those of these clients that know the message that the card is settled; those here also who answered it."""
        frame = Envelope(kind=kinds.RPC, channel=session, payload=payload)
        answered = self.clients.get(by)
        who = None if answered is None else ("terminal" if answered.local else "instance")
        here = jsonrpc.notification(
            "_lembas/permission/settled", SettledHere(session, card, SettledMeta(SettledBy(who)))
        )
        for number in clients:
            client = self.clients.get(number)
            if client is not None and client.protocol:
                told = msgspec.structs.replace(frame, payload=here) if client.local else frame
                self.out.append(effects.CardSettled(number, card, told))

    # ── sessions ────────────────────────────────────────────────────────────────────────────────

    def live(self, channel: str) -> Channel | None:
        """The channel, if its process is connected and stays."""
        found = self.channels.get(channel)
        return found if found is not None and found.state is State.LIVE else None

    def use(self, channel: Channel) -> None:
        """The session is worked with now."""
        self._uses += 1
        channel.used, channel.asked_to_end = self._uses, False

    @property
    def quiet(self) -> bool:
        """Whether nothing is being started or looked for, and nobody is about to be answered."""
        coming = (State.PROBING, State.DELETING, State.STARTING, State.WAITING)
        return self.requests.quiet and not any(
            channel.state in coming for channel in self.channels.values()
        )

    @property
    def busy(self) -> bool:
        """Whether any session works."""
        return any(channel.session.busy for channel in self.channels.values())


def _place(since: str | None) -> tuple[int, int] | None:
    """Epoch and number of the last message that a client saw; None for none, or what is no such place."""
    found = _PLACE.fullmatch(since or "")
    return None if found is None else (int(found[1]), int(found[2]))
