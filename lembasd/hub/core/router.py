"""The routing table: every request of a client is answered exactly once, by its target or for it.

This half takes what clients and processes say; `lives` holds how processes come and go, `table` what is known.
Broadcasts of a session do not come here: the runner asks `audience` for each and hands them on.
"""

from collections.abc import Callable
from typing import Any, Final, assert_never

import msgspec

from lembasd.hub.core import effects, inputs, methods
from lembasd.hub.core.attachments import Audience
from lembasd.hub.core.lives import LINK_GONE, NO_REMOTE_TERMINAL, Lives, resume_timer
from lembasd.hub.core.methods import Target
from lembasd.hub.core.requests import Pending, Waiting
from lembasd.hub.core.table import FIRST_PROTOCOL, UTILITY, Channel, Client, State, Table
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.acp import InitializeParams
from lembasd.protocol.control import AttachAsked, Extensions, Settings
from lembasd.protocol.errors import (
    AGENTS_REFUSED,
    DISK_LOW,
    DISK_REASON,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
)
from lembasd.protocol.ids import is_session_id, session_of_card
from lembasd.protocol.jsonrpc import Message
from lembasd.protocol.lembas import AttachParams
from lembasd.protocol.limits import MAX_LINK_TERMINALS, TERMINAL_RESUME_S

#: requests one client may have open; more are refused (a client that never reads its answers)
MAX_CLIENT_REQUESTS: Final = 1000
#: terminals of one local client; one more is refused
MAX_LOCAL_TERMINALS: Final = 64

_TOO_MANY: Final = "too many requests are open; wait for some of their answers"
_NO_TERMINAL: Final = "unknown terminal"
#: what is still taken while everything ends
_WHILE_STOPPING: Final = frozenset({Target.INITIALIZE, Target.STATUS, Target.STOP})

#: what attaches a client of this machine too
_ATTACHING: Final = frozenset({Target.NEW_SESSION, Target.NEW_TERMINAL})

#: what the runner answers itself
_OWN: Final[dict[Target, Callable[[int, bytes], effects.Effect]]] = {
    Target.STATUS: effects.GiveStatus,
    Target.STOP: effects.StopHub,
    Target.RELOAD: effects.ReloadHub,
}

_initialize: Final = msgspec.json.Decoder(InitializeParams)
_attach: Final = msgspec.json.Decoder(AttachParams)


class Router:
    """`first_request`: a random start, so that an answer meant for an earlier hub finds nobody."""

    def __init__(self, first_request: int) -> None:
        self.table = Table(first_request)
        self._lives = Lives(self.table)

    def audience(self, channel: str) -> Audience:
        """Whom a broadcast of the session or terminal goes to."""
        return self.table.attachments.audience(channel)

    def handle(self, what: inputs.Input, now: float) -> list[effects.Effect]:
        """Take one input; `now` is monotonic seconds. The effects are to be performed in order."""
        self.table.out = []
        match what:
            case inputs.ClientSaid():
                self._said(what, now)
            case inputs.ClientJoined(client, local, agents):
                self.table.clients[client] = Client(client, local, agents)
            case inputs.ClientLeft(client):
                self._left(client, now)
            case inputs.Answered():
                self._answered(what)
            case inputs.CardWaits() | inputs.CardShown() | inputs.CardDecided():
                self._card(what)
            case inputs.ClientOutdated(session, client):
                self._outdated(session, client)
            case inputs.SettingsChanged(settings):
                self._settings(settings)
            case inputs.TidyDue():
                self._lives.tidy(now)
            case inputs.DeletesKept():
                self._say_deleted()
            case inputs.StopAsked(reason):
                self.table.stopping = reason
                self._lives.stop(reason)
            case (
                inputs.SessionSaid()
                | inputs.TerminalSaid()
                | inputs.NeedSaid()
                | inputs.LeavingSaid()
                | inputs.MemoryMeasured()
                | inputs.Answering()
            ):
                self._told(what, now)
            case _:
                self._life(what, now)
        return self.table.out

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    def _life(self, what: inputs.LifeInput, now: float) -> None:
        match what:
            case inputs.WorkerJoined(hello, pid):
                self._lives.worker_joined(hello, pid, now)
            case inputs.UtilityJoined(pid):
                self._lives.utility_joined(pid, now)
            case inputs.TerminalJoined(terminal, pid):
                self._lives.terminal_joined(terminal, pid, now)
            case inputs.ConnectionLost(channel):
                self._lives.lost(channel, now)
            case inputs.ProcessEnded():
                self._lives.ended(what, now)
            case inputs.StartFailed():
                self._lives.start_failed(what, now)
            case inputs.Probed(session, exists, held):
                self._lives.probed(session, now, exists=exists, held=held)
            case inputs.TimerFired(key):
                self._lives.timer(key, now)
            case _:
                assert_never(what)

    def _told(
        self,
        what: inputs.SessionSaid
        | inputs.TerminalSaid
        | inputs.NeedSaid
        | inputs.LeavingSaid
        | inputs.MemoryMeasured
        | inputs.Answering,
        now: float,
    ) -> None:
        match what:
            case inputs.SessionSaid(session, state):
                channel = self.table.channels.get(session)
                if channel is not None:
                    begins = state.busy and not channel.session.busy
                    if state.busy != channel.session.busy:
                        self.table.use(channel)
                    channel.session = state
                    self._given(channel, given=state.given)
                    if begins:
                        self._begins(channel)
            case inputs.TerminalSaid(terminal, size):
                channel = self.table.channels.get(terminal)
                if channel is not None:
                    channel.terminal = size
            case inputs.NeedSaid(name):
                channel = self.table.live(name)
                if channel is not None:
                    self.table.send_settings(channel)
            case inputs.LeavingSaid(name, superseded):
                self._lives.leaving(name, now, superseded=superseded)
            case inputs.MemoryMeasured(session, rss_bytes):
                self._lives.measured(session, rss_bytes)
            case inputs.Answering(name, answers):
                self._lives.answering(name, answers=answers)
            case _:
                assert_never(what)

    def _begins(self, channel: Channel) -> None:
        """A session begins to work: it and those that work in its directory hear of each other."""
        table = self.table
        others = [(one.id, one.session) for one in table.channels.values() if one.role == "worker"]
        for warned in table.neighbours.began(channel.id, channel.session, others):
            audience = table.attachments.audience(warned.session)
            for client in audience.lembas:
                told = warned.here if client in audience.local else warned.elsewhere
                table.say(client, told, warned.session)

    def _given(self, channel: Channel, *, given: bool) -> None:
        """The link is attached to what the instance may name, by its worker's word, and to nothing that was taken back."""
        if given == channel.given or channel.state is not State.LIVE or not channel.stored:
            return
        channel.given = given
        if not given:
            self._take_back(channel)
            return
        for client in self.table.clients.values():
            if client.initialized and not client.local:
                self.table.attach(channel, self.table.follower(client, channel.id))

    def _take_back(self, channel: Channel) -> None:
        for attached in self.table.attachments.of(channel.id):
            if not attached.local:
                self.table.attachments.detach(channel.id, attached.client)
                self.table.send(channel.id, kinds.DETACHED, client=attached.client)

    def _card(self, what: inputs.CardWaits | inputs.CardShown | inputs.CardDecided) -> None:
        approvals = self.table.approvals
        match what:
            case inputs.CardWaits(session, card):
                approvals.waiting(session, card)
            case inputs.CardShown(session, card, client):
                approvals.shown(session, card, client)
            case inputs.CardDecided(session, card, client, payload):
                places = approvals.settled(session, card, client)
                self.table.settle(session, card, places, payload, by=client)
            case _:
                assert_never(what)

    def _outdated(self, session: str, number: int) -> None:
        client = self.table.clients.get(number)
        attached = self.table.attachments.is_attached(session, number)
        if client is not None and attached and client.protocol > FIRST_PROTOCOL:
            self.table.outdated(client)

    def _answered(self, what: inputs.Answered) -> None:
        table = self.table
        pending = table.requests.take(what.request, what.client)
        if pending is not None:
            self._answer(pending, what)
        self._lives.answered(what.request)

    def _answer(self, pending: Pending, what: inputs.Answered) -> None:
        table = self.table
        if pending.target is Target.NEW_SESSION:
            channel = table.channels.get(pending.channel)
            if channel is not None:
                channel.stored = not what.failed
            if what.failed:
                table.attachments.channel_ended(pending.channel)
        if pending.target is Target.ATTACH and not what.failed:
            self._now_attached(pending)
        table.say(pending.client, what.payload, pending.channel)
        if pending.method == methods.DELETE_METHOD and not what.failed:
            self._lives.deleted(pending.channel)
            self._say_deleted()

    def _now_attached(self, pending: Pending) -> None:
        client, channel = (
            self.table.clients.get(pending.client),
            self.table.live(pending.channel),
        )
        if client is not None and channel is not None:
            self.table.attach(channel, self.table.attached(client, pending.since))
            self.table.out.append(effects.Restart(client.number, channel.id))

    def _say_deleted(self) -> None:
        for client in self.table.clients.values():
            self._say_deleted_to(client)

    def _say_deleted_to(self, client: Client) -> None:
        if client.initialized and client.protocol and not client.local:
            self.table.out.append(effects.SayDeleted(client.number))

    def _settings(self, settings: Settings) -> None:
        table = self.table
        table.settings = settings
        off = not table.allows_remote_terminals
        for channel in table.channels.values():
            if channel.state is State.LIVE:
                table.send_settings(channel)
            if off and channel.link:
                self._lives.unwanted(channel, NO_REMOTE_TERMINAL)

    # ── clients ─────────────────────────────────────────────────────────────────────────────────

    def _left(self, number: int, now: float) -> None:
        table = self.table
        if table.clients.pop(number, None) is None:
            return
        # it never heard their names: no later link of it could take them up
        unnamed = {
            one.channel
            for one in table.requests.of_client(number)
            if one.target is Target.NEW_TERMINAL
        }
        table.requests.client_left(number)
        table.approvals.client_left(number)
        for name in table.attachments.channels_of(number):
            table.attachments.detach(name, number)
            if table.live(name) is not None:
                table.send(name, kinds.DETACHED, client=number)
        for channel in table.channels.values():
            if channel.link and channel.opener == number:
                if channel.resume and channel.id not in unnamed:
                    at = now + TERMINAL_RESUME_S
                    table.out.append(effects.SetTimer(resume_timer(channel.id), at))
                else:
                    self._lives.unwanted(channel, LINK_GONE)

    def _said(self, said: inputs.ClientSaid, now: float) -> None:
        table, message = self.table, said.message
        client = table.clients.get(said.client)
        if client is None:
            return
        if message.is_reply:
            self._reply(client, message)
            return
        target = methods.target(message.method, local=client.local)
        if target is Target.ATTACH_TERMINAL and not (
            client.local or client.extensions.terminal_resume
        ):
            target = None  # an extension that it did not ask for
        of_terminal = target in (Target.TERMINAL, Target.ATTACH_TERMINAL)
        channel = message.terminal if of_terminal else message.session
        if target is Target.UTILITY:
            channel = UTILITY  # its answer waits behind nothing that the session says
        pending = None
        if message.is_request:
            pending = table.requests.open(
                client.number,
                message.id,
                message.method,
                target or Target.LIVE,
                said.fresh or channel,
                message.text,
            )
        if target is None:
            if pending is not None:
                table.refuse(pending, METHOD_NOT_FOUND, f"{message.method} is unknown here")
            return
        refused = self._refused(client, target)
        if refused is None:
            self._route(client, target, pending, said, now)
        elif pending is not None:
            table.refuse(pending, *refused)

    def _refused(
        self, client: Client, target: Target
    ) -> tuple[int, str, dict[str, Any] | None] | None:
        """Why a message is not taken at all: code, sentence, data."""
        if client.agents and target not in methods.FOR_AGENTS:
            return INVALID_PARAMS, AGENTS_REFUSED, {"reason": "agent"}
        needs_no_initialize = target is Target.INITIALIZE or target in methods.LOCAL
        if not client.initialized and not needs_no_initialize:
            return INVALID_REQUEST, "initialize first", None
        if self.table.stopping and target not in _WHILE_STOPPING:
            return INTERNAL_ERROR, self.table.stopping, {"reason": "stopping"}
        if self.table.requests.count(client.number) > MAX_CLIENT_REQUESTS:
            return INTERNAL_ERROR, _TOO_MANY, {"reason": "busy", "retryable": True}
        return None

    def _reply(self, client: Client, message: Message) -> None:
        """The answer to a card: to the worker that asked, if the client is one that it could have asked."""
        session = session_of_card(message.reply_id)
        live = self.table.live(session) is not None and not client.agents
        if live and self.table.attachments.is_attached(session, client.number):
            self.table.pass_on(session, session, client.number, 0, message.text)

    def _route(
        self,
        client: Client,
        target: Target,
        pending: Pending | None,
        said: inputs.ClientSaid,
        now: float,
    ) -> None:
        match target:
            case Target.TERMINAL:
                self._terminal(client, pending, said.message)
            case Target.ENGINE | Target.LIVE | Target.READER:
                self._session(client, target, pending, said.message, now)
            case _ if pending is None:
                pass  # what follows is asked for, or means nothing
            case Target.UTILITY:
                waiting = self._waiting(client, pending, said.message, UTILITY)
                self._lives.read(waiting, now)
            case Target.INITIALIZE:
                self._initialize(client, pending, said.message)
            case Target.NEW_SESSION:
                self._new_session(client, pending, said, now)
            case Target.NEW_TERMINAL:
                self._new_terminal(client, pending, said, now)
            case Target.ATTACH:
                self._attach(client, pending, said.message)
            case Target.ATTACH_TERMINAL:
                self._attach_terminal(client, pending, said.message)
            case Target.STATUS | Target.STOP | Target.RELOAD:
                self._own(pending, _OWN[target](client.number, pending.id))
            case _:
                assert_never(target)

    def _own(self, pending: Pending, effect: effects.Effect) -> None:
        """The runner answers, by performing `effect`."""
        self.table.requests.take(pending.number, pending.client)
        self.table.out.append(effect)

    def _initialize(self, client: Client, pending: Pending, message: Message) -> None:
        table = self.table
        try:
            params = _initialize.decode(message.params or b"{}")
        except (msgspec.MsgspecError, RecursionError):
            table.refuse(pending, INVALID_PARAMS, "the params of initialize cannot be read")
            return
        lembas = params.lembas
        client.initialized = True
        client.protocol = lembas.protocol if lembas is not None else 0
        if client.outdated:
            client.protocol = min(client.protocol, FIRST_PROTOCOL)
        client.show = lembas.show if lembas is not None else False
        if lembas is not None:
            replay = not client.local and lembas.replay is not False
            client.extensions = Extensions(
                terminal_flow=lembas.terminal_flow,
                terminal_resume=lembas.terminal_resume,
                terminal_frames=client.local and lembas.terminal_frames,
                replay=replay,
            )
            client.seen = dict(lembas.replay) if isinstance(lembas.replay, dict) else {}
        self._own(pending, effects.Initialize(client.number, pending.id, client.extensions))
        self._say_deleted_to(client)
        for channel in table.channels.values():
            if channel.role != "worker" or channel.state is not State.LIVE:
                continue
            again = table.attachments.is_attached(channel.id, client.number)
            if again or (channel.given and not client.local):
                table.attach(channel, table.follower(client, channel.id))

    # ── sessions and terminals ──────────────────────────────────────────────────────────────────

    def _new_session(
        self, client: Client, pending: Pending, said: inputs.ClientSaid, now: float
    ) -> None:
        if self.table.settings.low_disk:
            self.table.fail(pending, DISK_LOW, DISK_REASON, retryable=True)
            return
        channel = Channel(said.fresh, "worker", State.STARTING, stored=False)
        self._lives.open_new(channel, self._waiting(client, pending, said.message, said.fresh), now)

    def _waiting(
        self, client: Client, pending: Pending | None, message: Message, channel: str
    ) -> Waiting:
        """The message as it goes to a process. The link, and who makes something, is attached to it first."""
        target = Target.LIVE if pending is None else pending.target
        attaches = not client.local or target in _ATTACHING
        is_terminal = target is Target.NEW_TERMINAL
        attached = (
            self.table.viewer(client) if is_terminal else self.table.follower(client, channel)
        )
        return Waiting(
            number=0 if pending is None else pending.number,
            client=client.number,
            method=message.method,
            target=target,
            channel=channel,
            text=message.text,
            attach=attached if attaches else None,
        )

    def _session(
        self,
        client: Client,
        target: Target,
        pending: Pending | None,
        message: Message,
        now: float,
    ) -> None:
        session = message.session
        if not is_session_id(session):
            if pending is not None and session:
                self._lives.unknown_session(pending)
            elif pending is not None:
                self.table.refuse(
                    pending, INVALID_PARAMS, f"{message.method} needs params with a sessionId"
                )
            return
        channel = self.table.channels.get(session)
        waiting = self._waiting(client, pending, message, session)
        if channel is not None and channel.state is State.LIVE:
            self._deliver(channel, waiting, now)
        elif target is Target.LIVE or pending is None:
            self._not_open(channel, waiting, pending)
        else:
            self._lives.need(waiting)

    def _deliver(self, channel: Channel, waiting: Waiting, now: float) -> None:
        if channel.unresponsive and waiting.method == methods.HISTORY_METHOD:
            # what was said stands in the journal, whatever becomes of the process
            self._lives.read(waiting, now)
        else:
            self._lives.deliver(channel, waiting)

    def _not_open(self, channel: Channel | None, waiting: Waiting, pending: Pending | None) -> None:
        """What opens no session follows what is on its way to it; else there is nothing to do for it."""
        if channel is not None and channel.waiting:
            self._lives.wait(channel, waiting)
        elif pending is not None:
            self.table.answer(pending, jsonrpc.result(pending.id, {}))

    def _attach(self, client: Client, pending: Pending, message: Message) -> None:
        try:
            params = _attach.decode(message.params or b"{}")
        except (msgspec.MsgspecError, RecursionError):
            self.table.refuse(pending, INVALID_PARAMS, "the params of _hub/attach cannot be read")
            return
        if not is_session_id(params.sessionId):
            self._lives.unknown_session(pending)
            return
        # what such a client has not seen yet is under way to it already, and would come twice
        attached = self.table.attachments.is_attached(params.sessionId, client.number)
        waiting = Waiting(
            number=pending.number,
            client=client.number,
            method=message.method,
            target=Target.ATTACH,
            channel=params.sessionId,
            # its process answers, and with that the client is attached: nothing comes before the answer, nothing is missed
            text=jsonrpc.passed_on(
                pending.id,
                message.method,
                AttachAsked(params.sessionId, None if attached else params.since, client.protocol),
            ),
        )
        self.table.requests.saw(pending.number, params.since)
        live = self.table.live(params.sessionId)
        if live is not None:
            self._lives.deliver(live, waiting)
        else:
            self._lives.need(waiting)

    def _attach_terminal(self, client: Client, pending: Pending, message: Message) -> None:
        """A client looks at a terminal from now on, or again; the terminal says where its output begins."""
        table = self.table
        channel = table.live(message.terminal)
        if channel is None or channel.role != "pty" or not self._may_look(client, channel):
            table.refuse(pending, INVALID_PARAMS, _NO_TERMINAL)
            return
        if not client.local:
            channel.opener, channel.resume = client.number, True
            table.out.append(effects.CancelTimer(resume_timer(channel.id)))
        table.attach(channel, table.viewer(client, asks=True))
        table.pass_on(channel.id, channel.id, client.number, pending.number, message.text)

    def _may_look(self, client: Client, channel: Channel) -> bool:
        """The instance takes up what it opened over an earlier link; a person here any."""
        if client.local:
            return True
        taken = channel.opener in self.table.clients and channel.opener != client.number
        return channel.link and channel.resume and not taken and not channel.unwanted

    def _new_terminal(
        self, client: Client, pending: Pending, said: inputs.ClientSaid, now: float
    ) -> None:
        table = self.table
        if not client.local and not table.settings.remote.terminal:
            off = {"reason": "terminal_off"}
            table.refuse(pending, INVALID_PARAMS, NO_REMOTE_TERMINAL, off)
            return
        # those that wait for their link count: they are the same client's
        opened = [
            one
            for one in table.channels.values()
            if (one.opener == client.number or (one.link and not client.local))
            and not one.terminal.ended
        ]
        most = MAX_LOCAL_TERMINALS if client.local else MAX_LINK_TERMINALS
        if len(opened) >= most:
            table.refuse(
                pending, INVALID_PARAMS, f"at most {most} terminals may be open; close one first"
            )
            return
        channel = Channel(
            said.fresh,
            "pty",
            State.STARTING,
            opener=client.number,
            link=not client.local,
            resume=not client.local and client.extensions.terminal_resume,
        )
        self._lives.open_new(channel, self._waiting(client, pending, said.message, said.fresh), now)

    def _terminal(self, client: Client, pending: Pending | None, message: Message) -> None:
        """Keystrokes and the like, for a terminal that the client is attached to."""
        table, terminal = self.table, message.terminal
        if table.live(terminal) and table.attachments.is_attached(terminal, client.number):
            number = 0 if pending is None else pending.number
            table.pass_on(terminal, terminal, client.number, number, message.text)
        elif pending is not None:
            table.refuse(pending, INVALID_PARAMS, _NO_TERMINAL)
