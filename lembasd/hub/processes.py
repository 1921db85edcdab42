"""The connected processes: what workers, terminals and the utility worker say.

Broadcasts take the short way: envelope, audience, sockets. Everything else goes to the router.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from lembasd.hub.core import inputs
from lembasd.hub.core.router import Router
from lembasd.hub.ports import ClientPort
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import CardInfo, Leaving, SessionState, TerminalState
from lembasd.protocol.envelope import Envelope

_card: Final = msgspec.json.Decoder(CardInfo)
_leaving: Final = msgspec.json.Decoder(Leaving)
_session_state: Final = msgspec.json.Decoder(SessionState)
_terminal_state: Final = msgspec.json.Decoder(TerminalState)


class HubSide(Protocol):
    """What a connected process uses of its hub."""

    router: Router
    ports: dict[int, ClientPort]
    #: called when settings or a session's state changed
    on_change: Callable[[], None]

    def feed(self, what: inputs.Input) -> None: ...

    def refresh_settings(self) -> None:
        """Take in what changed on the disk."""

    def discard_output(self, terminal: str) -> None: ...


class ConnectedProcess:
    """One process and its connection. `channel`: its session, its terminal, or UTILITY."""

    #: it is told what its clients' sockets have taken
    counts_output = False

    def __init__(self, hub: HubSide, peer: Peer, channel: str, pid: int) -> None:
        #: the version it runs, which is an older one after an update
        self.build = peer.hello.build if peer.hello is not None else ""
        self.hub = hub
        self.peer = peer
        self.channel = channel
        self.pid = pid
        #: it has said something since the last beat (hub/heartbeat.py); and it has not for too long
        self.heard = True
        self.unresponsive = False

    def rpc(self, message: Envelope) -> None:
        """A finished JSON-RPC message for one client or several."""
        raise NotImplementedError

    def control(self, message: Envelope) -> None:
        """A frame for the hub itself."""
        if message.kind == kinds.LEAVING:
            leaving = self._decode(_leaving, message.payload or b"{}")
            if leaving is not None:
                self.hub.feed(inputs.LeavingSaid(self.channel, leaving.superseded))
        elif message.kind == kinds.NEED:
            self.hub.refresh_settings()
            self.hub.feed(inputs.NeedSaid(self.channel))
        else:
            self.peer.answer_unknown(message)

    def _answered(self, message: Envelope) -> None:
        self.hub.feed(
            inputs.Answered(message.request, message.client, message.payload, message.failed)
        )

    def _decode(self, decoder: msgspec.json.Decoder[Any], payload: bytes) -> Any:
        """The payload of a control frame, or None: then its peer has been dropped."""
        try:
            return decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            self.peer.close("the payload of a frame cannot be read")
            return None


class WorkerProcess(ConnectedProcess):
    """A session's worker."""

    def rpc(self, message: Envelope) -> None:
        if message.channel != self.channel:
            self.peer.close("a worker speaks for its own session alone")
            return
        audience = message.audience
        if audience == kinds.LEMBAS:
            clients = self.hub.router.audience(message.channel).lembas
        elif audience == kinds.ALL:
            clients = self.hub.router.audience(message.channel).everyone
        elif audience == kinds.LOCAL:
            clients = self.hub.router.audience(message.channel).local
        else:
            self._to_one(message)
            return
        ports = self.hub.ports
        for client in clients:
            ports[client].deliver(message)

    def _to_one(self, message: Envelope) -> None:
        if message.request:
            self._answered(message)
        elif self.hub.router.table.attachments.is_attached(self.channel, message.client):
            if message.card:
                self.hub.feed(inputs.CardShown(self.channel, message.card, message.client))
            self.hub.ports[message.client].deliver(message)

    def control(self, message: Envelope) -> None:
        match message.kind:
            case kinds.STATE:
                state = self._decode(_session_state, message.payload)
                if state is not None:
                    self.hub.feed(inputs.SessionSaid(self.channel, state))
                    self.hub.on_change()
            case kinds.CARD:
                card = self._decode(_card, message.payload)
                if card is not None:
                    self.hub.feed(inputs.CardWaits(self.channel, card.tool_call_id))
            case kinds.SETTLED:
                self.hub.feed(
                    inputs.CardDecided(self.channel, message.card, message.client, message.payload)
                )
            case kinds.OUTDATED:
                self.hub.feed(inputs.ClientOutdated(self.channel, message.client))
            case kinds.RESENT:
                port = self.hub.ports.get(message.client)
                if port is not None:
                    port.resent(self.channel)
            case _:
                super().control(message)


class UtilityProcess(ConnectedProcess):
    """The worker that reads the journals of sessions nobody has open."""

    def rpc(self, message: Envelope) -> None:
        self._answered(message)


class TerminalProcess(ConnectedProcess):
    """A terminal's pty process."""

    counts_output = True

    def rpc(self, message: Envelope) -> None:
        if message.channel != self.channel:
            self.peer.close("a pty speaks for its own terminal alone")
            return
        if message.request:
            self._answered(message)
            return
        if message.client in self.hub.router.audience(self.channel).everyone:
            self.hub.ports[message.client].deliver_output(message)

    def control(self, message: Envelope) -> None:
        if message.kind == kinds.OUTPUT:
            self.rpc(message)
            return
        if message.kind == kinds.DISCARD:
            self.hub.discard_output(self.channel)
            return
        if message.kind != kinds.STATE:
            super().control(message)
            return
        state = self._decode(_terminal_state, message.payload)
        if state is not None:
            self.hub.feed(inputs.TerminalSaid(self.channel, state))
