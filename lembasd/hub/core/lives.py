"""The lives of processes as the router sees them: asked for, started, connected, lost, ended.

A session's process is found in this order: the one that is connected; the one that holds the store's lock and
has not said hello yet (waited for); else a new one. Two workers for one session cannot be, their lock sees to it.
"""

from typing import Final

from lembasd.hub.core import effects, room
from lembasd.hub.core.ends import WINDOW_S
from lembasd.hub.core.inputs import ProcessEnded, StartFailed
from lembasd.hub.core.methods import DELETE_METHOD, REOPENS, STATUS_METHOD, Target
from lembasd.hub.core.requests import Pending, Waiting
from lembasd.hub.core.table import UTILITY, Channel, State, Table
from lembasd.protocol import envelope as kinds
from lembasd.protocol import events, jsonrpc
from lembasd.protocol.control import SessionState, Stop, TerminalState
from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.protocol.hello import SessionHello, TerminalHello
from lembasd.protocol.ids import is_session_id
from lembasd.protocol.lembas import Status, TerminalExit
from lembasd.protocol.limits import MIB, TERMINAL_RESUME_S
from lembasd.protocol.spawn import (
    EXIT_LOCKED,
    EXIT_NEWER,
    EXIT_UNKNOWN,
    EXIT_UNREADABLE,
    EXITS_MEANT,
)

#: a worker that holds its session's lock and says no hello for so long is not coming soon: the answer is "try again"
ADOPTION_WAIT_S: Final = 5.0
#: a process that was started and says no hello for so long is killed, and what waits for it refused
START_TIMEOUT_S: Final = 10.0
#: messages that wait for one process; more are refused (a client that asks on and on without an answer)
MAX_WAITING: Final = 1000

_ELSEWHERE: Final = "the session is in use by a process that does not answer; try again in a moment"
_UNREADABLE: Final = "the session's journal cannot be read, lembasd's log says why; mend it, or go on in a new session"
_NEWER: Final = (
    "a newer version of lembasd has worked on this session; install that or a later one to open it"
)
_UNKNOWN: Final = "unknown session"
_ENDED: Final = "the process that worked on this ended; send it again"
_BUSY: Final = "too many requests wait for this session; try again in a moment"
_SLOW_START: Final = f"a process did not start within {START_TIMEOUT_S:g} s; try again"
_CLOSED: Final = (
    "this session's process ended three times within a minute; send a prompt to open it again"
)


#: why a link's terminal hangs up
LINK_GONE: Final = "the link it was opened on is gone"
NO_REMOTE_TERMINAL: Final = (
    "terminals are off for the instance on this device; `lembas remote terminal on` allows them"
)
_UNRESPONSIVE: Final = "the process of this session does not answer; what is sent to it waits, and nothing is ended for that"
_ANSWERS: Final = "the process of this session answers again"
_READER_CLOSED: Final = "what reads the sessions that are not open ended three times within a minute; try again in a minute"
_NO_ROOM: Final = "as many sessions work as may (hub.max_workers: {most}); try again when one is done, or leave one"
_TOO_LARGE: Final = (
    "the process that worked on this was ended, for it had {used} MiB in memory (hub.worker_memory: {most} MiB); "
    "go on in smaller steps, or raise that in config.yaml"
)
#: states that a process is in for a while only
_TIMED: Final = (State.STARTING, State.AWAITED, State.WAITING)
_RESUME: Final = "resume "
#: timers after which what crashed again and again has not done so for a window, or may be started again
_STEADY: Final = "steady "
_REOPEN: Final = "reopen "


def resume_timer(terminal: str) -> str:
    """The timer of a terminal that waits for its client's next link."""
    return _RESUME + terminal


def _again(pending: Pending) -> Waiting:
    """The prompt as the session's next process is given it."""
    return Waiting(
        number=pending.number,
        client=pending.client,
        method=pending.method,
        target=pending.target,
        channel=pending.channel,
        text=pending.text,
        again=True,
    )


class Lives:
    """Transitions of channels. Every method may append effects to the table's `out`."""

    def __init__(self, table: Table) -> None:
        self._table = table
        #: deletions under way in the utility worker: the session of each by the number of its request
        self._deleting: dict[int, str] = {}
        #: the next utility worker is to tidy
        self._tidy = False

    # ── asking for a process ────────────────────────────────────────────────────────────────────

    def need(self, waiting: Waiting) -> None:
        """Have `waiting` reach its session's process, which is not connected."""
        table, session = self._table, waiting.channel
        if table.ends.is_closed(session):
            if waiting.again:
                self._fail([waiting], _ENDED, "worker_ended", retryable=True)
                return
            if waiting.method == REOPENS:
                table.ends.reopen(session)
            elif waiting.target is not Target.READER:
                self._fail([waiting], _CLOSED, "closed")
                return
        channel = table.channels.get(session)
        if channel is None:
            channel = table.channels[session] = Channel(session, "worker", State.PROBING)
            table.out.append(effects.Probe(session))
        self.wait(channel, waiting)

    def wait(self, channel: Channel, waiting: Waiting) -> None:
        """Have `waiting` reach a process that is on its way."""
        if len(channel.waiting) < MAX_WAITING:
            channel.waiting.append(waiting)
        else:
            self._fail([waiting], _BUSY, "busy", retryable=True)

    def open_new(self, channel: Channel, waiting: Waiting, now: float) -> None:
        """Start the process of a session or terminal that is to be made."""
        self._table.channels[channel.id] = channel
        channel.waiting.append(waiting)
        self._start(channel, now)

    def read(self, waiting: Waiting, now: float) -> None:
        """Have `waiting` reach the utility worker."""
        table = self._table
        table.requests.moved(waiting.number, UTILITY)
        channel = self._reader(now)
        if channel is None:
            self._fail([waiting], _READER_CLOSED, "closed", retryable=True)
        elif channel.state is State.LIVE:
            self.deliver(channel, waiting)
        else:
            self.wait(channel, waiting)

    def tidy(self, now: float) -> None:
        """Have the utility worker remove what is kept no longer."""
        table = self._table
        channel = None if table.stopping else self._reader(now)
        if channel is None:
            return
        if channel.state is State.LIVE:
            table.send(UTILITY, kinds.TIDY)
        else:
            self._tidy = True

    def _reader(self, now: float) -> Channel | None:
        """The utility worker, begun where there is none; None while it is closed, for it ended again and again."""
        table = self._table
        channel = table.channels.get(UTILITY)
        if channel is None and not table.ends.is_closed(UTILITY):
            channel = table.channels[UTILITY] = Channel(UTILITY, "utility", State.STARTING)
            self._start(channel, now)
        return channel

    def _start(self, channel: Channel, now: float) -> None:
        table = self._table
        if channel.role == "worker" and not room.is_left(table, channel):
            self._wait_for_room(channel, now)
            return
        channel.state = State.STARTING
        channel.openers = frozenset(
            one.client for one in channel.waiting if one.target is not Target.READER
        )
        ended_for = table.ended_for.get(channel.id, "")
        table.out += [
            effects.Start(channel.role, channel.id, not channel.stored, channel.link, ended_for),
            effects.SetTimer(channel.id, now + START_TIMEOUT_S),
        ]

    # ── room ────────────────────────────────────────────────────────────────────────────────────

    def _wait_for_room(self, channel: Channel, now: float) -> None:
        """As many workers run as may: the one that was used least lately and has nothing to do is asked to end."""
        idle = room.least_used(self._table)
        if idle is None:
            del self._table.channels[channel.id]
            self._no_room(channel)
            return
        idle.asked_to_end = True
        self._table.send(idle.id, kinds.YIELD)
        channel.state = State.WAITING
        self._table.out.append(effects.SetTimer(channel.id, now + room.ROOM_WAIT_S))

    def _no_room(self, channel: Channel) -> None:
        most = self._table.settings.max_workers
        self._fail(channel.waiting, _NO_ROOM.format(most=most), "busy", retryable=True)
        if not channel.stored:
            self._table.attachments.channel_ended(channel.id)

    def _room_made(self, now: float) -> None:
        """A worker runs no more, or is about to: what waits for that is started."""
        for channel in [*self._table.channels.values()]:
            if channel.state is State.WAITING and room.is_left(self._table, channel):
                self._table.out.append(effects.CancelTimer(channel.id))
                self._start(channel, now)

    def measured(self, session: str, rss_bytes: int) -> None:
        """A worker that has too much in memory is ended, as if it had crashed."""
        table, most = self._table, self._table.settings.worker_memory_bytes
        channel = table.live(session)
        if channel is None or most is None or rss_bytes <= most or channel.ended_for:
            return
        why = _TOO_LARGE.format(used=rss_bytes // MIB, most=most // MIB)
        channel.ended_for = table.ended_for[session] = why
        table.out.append(effects.EndProcess(session, why))

    def probed(self, session: str, now: float, *, exists: bool, held: bool) -> None:
        """The session's store was looked at."""
        channel = self._table.channels.get(session)
        if channel is None or channel.state is not State.PROBING:
            return  # its worker was faster
        if not exists:
            del self._table.channels[session]
            self._unknown(channel.waiting)
        elif held:
            channel.state = State.AWAITED
            self._table.out.append(effects.SetTimer(session, now + ADOPTION_WAIT_S))
        elif any(waiting.target is not Target.READER for waiting in channel.waiting):
            self._start(channel, now)
        else:
            all_waiting, channel.waiting = channel.waiting, []
            deletions = [one.number for one in all_waiting if one.method == DELETE_METHOD]
            if deletions:
                # nothing is opened meanwhile: it would be in the way of what was asked for first
                channel.state = State.DELETING
                self._deleting.update(dict.fromkeys(deletions, session))
            else:
                del self._table.channels[session]
            for waiting in all_waiting:
                self.read(waiting, now)

    # ── connected ───────────────────────────────────────────────────────────────────────────────

    def worker_joined(self, hello: SessionHello, pid: int, now: float) -> None:
        table, session = self._table, hello.session_id
        channel = table.channels.get(session)
        if channel is None or channel.state is not State.STARTING:
            table.out.append(effects.Adopted(session))
        if channel is None:
            channel = table.channels[session] = Channel(session, "worker", State.AWAITED)
        channel.stored = hello.stored
        table.ended_for.pop(session, None)  # its journal has it
        table.use(channel)
        channel.given = channel.given or hello.given
        channel.session = SessionState(
            busy=hello.turn_id is not None,
            turn_id=hello.turn_id,
            queued=hello.queued,
            last_turn_id=hello.last_turn_id,
            title=hello.title,
            root=hello.root,
            mode=hello.mode,
            model=hello.model,
            stored=hello.stored,
        )
        for card in hello.cards:
            table.approvals.waiting(session, card.tool_call_id)
        if channel.given:
            self._attach_link(channel)
        self._watch_steady(session, now)
        self._joined(channel, pid)

    def _watch_steady(self, channel_id: str, now: float) -> None:
        """Look after a window whether what has crashed again and again lives now."""
        if self._table.ends.is_looping(channel_id):
            self._table.out.append(effects.SetTimer(_STEADY + channel_id, now + WINDOW_S))

    def _crashed(self, channel_id: str, now: float) -> None:
        """A process ended that nobody had told to."""
        table = self._table
        if table.ends.ended(channel_id, now):
            table.out.append(effects.Looping(channel_id, loops=True))
        if table.ends.is_looping(channel_id):
            table.out.append(effects.CancelTimer(_STEADY + channel_id))
        if channel_id == UTILITY and table.ends.is_closed(UTILITY):
            table.out.append(effects.SetTimer(_REOPEN + UTILITY, now + WINDOW_S))

    def _settled(self, channel_id: str) -> None:
        """A process lives, or ended as it should, or its session is gone."""
        if self._table.ends.settled(channel_id):
            self._table.out += [
                effects.CancelTimer(_STEADY + channel_id),
                effects.Looping(channel_id, loops=False),
            ]

    def _attach_link(self, channel: Channel) -> None:
        """The link may have been there before the session's process: `_joined` tells it of this."""
        table = self._table
        for client in table.clients.values():
            there = table.attachments.is_attached(channel.id, client.number)
            if client.initialized and not client.local and not there:
                table.attachments.attach(channel.id, table.follower(client, channel.id))

    def utility_joined(self, pid: int, now: float) -> None:
        self._watch_steady(UTILITY, now)
        channel = self._table.channels.get(UTILITY)
        if channel is None:
            channel = self._table.channels[UTILITY] = Channel(UTILITY, "utility", State.AWAITED)
        self._joined(channel, pid)

    def terminal_joined(self, hello: TerminalHello, pid: int, now: float) -> None:
        channel = self._table.channels.get(hello.terminal_id)
        if channel is None:
            channel = Channel(
                hello.terminal_id, "pty", State.AWAITED, link=hello.link, resume=hello.resume
            )
            self._table.channels[hello.terminal_id] = channel
            if hello.link and not self._table.allows_remote_terminals:
                # turned off while there was no hub
                channel.unwanted = NO_REMOTE_TERMINAL
            elif hello.resume:
                # the next link may still come
                at = now + TERMINAL_RESUME_S
                self._table.out.append(effects.SetTimer(resume_timer(channel.id), at))
            elif hello.link:
                channel.unwanted = LINK_GONE
        channel.terminal = TerminalState(
            shell_pid=hello.shell_pid,
            cwd=hello.cwd,
            cols=hello.cols,
            rows=hello.rows,
            shell=hello.shell,
        )
        self._joined(channel, pid)

    def _joined(self, channel: Channel, pid: int) -> None:
        """The process is connected: the settings, who is attached, then what waits for it, in this order."""
        table = self._table
        channel.state, channel.pid, channel.unresponsive = State.LIVE, pid, False
        table.out.append(effects.CancelTimer(channel.id))
        table.send_settings(channel)
        unwanted = table.stopping or channel.unwanted
        if unwanted:
            table.send(channel.id, kinds.STOP, Stop(unwanted))
        for attached in table.attachments.of(channel.id):
            table.introduce(channel, table.with_opener(channel, attached))
            if attached.since is not None:
                table.remember(channel, attached)
        if channel.role == "utility" and self._tidy:
            self._tidy = False
            table.send(channel.id, kinds.TIDY)
        waiting, channel.waiting = channel.waiting, []
        for one in waiting:
            self.deliver(channel, one)

    def deliver(self, channel: Channel, waiting: Waiting) -> None:
        """Send a client's message to the connected process, attaching the client first where that is due."""
        table = self._table
        table.use(channel)
        present = waiting.client in table.clients
        if waiting.target is Target.NEW_SESSION and not present:
            # nobody could ever name the session
            table.send(
                channel.id, kinds.STOP, Stop("the client that asked for the session is gone")
            )
            return
        attach = waiting.attach if present and _may_attach(channel, waiting) else None
        if attach is not None and not table.attachments.is_attached(channel.id, attach.client):
            table.attach(channel, attach)
        if present or waiting.method == REOPENS:
            table.pass_on(channel.id, waiting.channel, waiting.client, waiting.number, waiting.text)

    def leaving(self, channel_id: str, now: float, *, superseded: bool) -> None:
        """An idle process asks to end: not while an answer of it is owed or a person here looks at it.

        One that is `superseded` ends under a person's eyes too: another takes its place at once.
        """
        table = self._table
        channel = table.live(channel_id)
        if channel is None or table.requests.of_process(channel_id):
            return
        if channel.role != "utility" and not superseded and self._is_looked_at(channel_id):
            return
        channel.state, channel.superseded = State.LEAVING, superseded
        table.send(channel_id, kinds.LEAVE)
        self._room_made(now)

    def _is_looked_at(self, channel_id: str) -> bool:
        """Whether a person at this machine is attached."""
        return any(attached.local for attached in self._table.attachments.of(channel_id))

    def answered(self, number: int) -> None:
        """A process has answered a request: what waits for a deletion's end goes on, whoever is still there to hear of it."""
        session = self._deleting.pop(number, "")
        if not session or session in self._deleting.values():
            return
        channel = self._table.channels.get(session)
        if channel is not None and channel.state is State.DELETING:
            del self._table.channels[session]
            for waiting in channel.waiting:
                self.need(waiting)

    def deleted(self, session: str) -> None:
        """A session is gone: who comes for it from now on waits for its worker's end, and finds none."""
        table = self._table
        table.attachments.channel_ended(session)
        table.ends.reopen(session)
        self._settled(session)
        channel = table.live(session)
        if channel is not None:
            channel.state, channel.deleted = State.LEAVING, True

    def answering(self, channel_id: str, *, answers: bool) -> None:
        """A process does not answer, or does again: who follows its session is told. Nothing else is done about it."""
        table = self._table
        channel = table.live(channel_id)
        if channel is None:
            return
        channel.unresponsive = not answers
        if channel.role == "worker":
            event = events.Notice(
                level="info" if answers else "warning",
                text=_ANSWERS if answers else _UNRESPONSIVE,
            )
            self._tell(channel, event)

    # ── gone ────────────────────────────────────────────────────────────────────────────────────

    def lost(self, channel_id: str, now: float) -> None:
        """The connection is gone. What it owed is answered, or asked again; if the process lives it comes back."""
        channel = self._table.channels.get(channel_id)
        if channel is None:
            return
        self._forget_owed(channel)
        if channel.state is State.LIVE:
            channel.state = State.AWAITED
            self._table.out.append(effects.SetTimer(channel_id, now + ADOPTION_WAIT_S))

    def _forget_owed(self, channel: Channel) -> None:
        table = self._table
        waiting = {one.number for one in channel.waiting}
        for pending in table.requests.of_process(channel.id):
            if pending.number in waiting:
                continue
            if channel.deleted:
                self.unknown_session(pending)
            elif channel.stored and pending.names_its_turn and not table.stopping:
                # what became of the turn stands in the session's store: its next process tells it, or runs it
                self.wait(channel, _again(pending))
            else:
                table.fail(pending, channel.ended_for or _ENDED, "worker_ended")
        if channel.role == "utility":
            for number in [one for one in self._deleting if one not in waiting]:
                self.answered(number)
        if channel.role != "worker":
            return
        table.out.append(effects.SessionGone(channel.id))
        for card, clients in table.approvals.session_ended(channel.id).items():
            payload = jsonrpc.notification(
                "_lembas/permission/settled", {"sessionId": channel.id, "toolCallId": card}
            )
            table.settle(channel.id, card, clients, payload)

    def ended(self, what: ProcessEnded, now: float) -> None:
        """The process is gone: what waits for it gets another one, or an error."""
        table = self._table
        channel = table.channels.pop(what.channel, None)
        if channel is None:
            if is_session_id(what.channel) and what.code not in EXITS_MEANT and not table.stopping:
                self._crashed(what.channel, now)
            return
        table.out.append(effects.CancelTimer(channel.id))
        self._forget_owed(channel)
        if channel.role == "worker":
            self._worker_ended(channel, what.code, now)
            self._room_made(now)
        elif channel.role == "pty":
            self._terminal_ended(channel, said_exit=what.code == 0)
        else:
            self._utility_ended(channel, what.code, now)

    def _utility_ended(self, channel: Channel, code: int | None, now: float) -> None:
        table = self._table
        if not table.stopping:
            if code in EXITS_MEANT or channel.state is State.LEAVING:
                self._settled(UTILITY)
            else:
                self._crashed(UTILITY, now)
        if (channel.waiting or self._tidy) and channel.state is not State.STARTING:
            for waiting in channel.waiting:
                self.read(waiting, now)
            if self._tidy:
                self.tidy(now)
        else:
            self._fail(channel.waiting, _ENDED, "worker_ended", retryable=True)

    def _worker_ended(self, channel: Channel, code: int | None, now: float) -> None:
        table = self._table
        table.neighbours.ended(channel.id)
        meant = code in EXITS_MEANT or channel.state is State.LEAVING or not channel.stored
        if not meant and not table.stopping:
            self._crashed(channel.id, now)
            self._tell_end(channel)
        elif channel.stored:
            self._settled(channel.id)
        if not channel.stored:
            table.attachments.channel_ended(channel.id)
        if channel.state is State.STARTING or not channel.stored:
            if code == EXIT_LOCKED:
                self._fail(channel.waiting, _ELSEWHERE, "busy", retryable=True)
            elif code == EXIT_UNREADABLE:
                self._fail(channel.waiting, _UNREADABLE, "unreadable")
            elif code == EXIT_NEWER:
                self._fail(channel.waiting, _NEWER, "newer")
            elif code == EXIT_UNKNOWN:
                table.attachments.channel_ended(channel.id)
                self._unknown(channel.waiting)
            else:
                self._fail(channel.waiting, _ENDED, "worker_ended", retryable=channel.stored)
            return
        if channel.superseded and not channel.waiting and self._is_looked_at(channel.id):
            again = table.channels[channel.id] = Channel(
                channel.id, "worker", State.STARTING, given=channel.given
            )
            self._start(again, now)
        for waiting in channel.waiting:
            self.need(waiting)

    def _tell_end(self, channel: Channel) -> None:
        """Tell who follows a turn that it will not go on; its own client has its prompt answered."""
        if not channel.session.busy:
            return
        self._tell(
            channel,
            events.Error(
                message=channel.ended_for or _ENDED, reason="worker_ended", retryable=True
            ),
        )

    def _tell(self, channel: Channel, event: events.AnyEvent) -> None:
        """Tell who follows the session, for its worker cannot."""
        table = self._table
        payload = jsonrpc.notification("_lembas/event", {"sessionId": channel.id, "event": event})
        for client in table.attachments.audience(channel.id).lembas:
            table.say(client, payload, channel.id)

    def unwanted(self, channel: Channel, why: str) -> None:
        """Have a terminal hang up, now or as soon as it is connected."""
        channel.unwanted = why
        if channel.state is State.LIVE:
            self._table.send(channel.id, kinds.STOP, Stop(why))

    def _terminal_ended(self, channel: Channel, *, said_exit: bool) -> None:
        table = self._table
        if channel.resume:
            table.out.append(effects.CancelTimer(resume_timer(channel.id)))
        self._fail(channel.waiting, "the terminal could not be opened; try again", "worker_ended")
        if not said_exit:
            payload = jsonrpc.notification(
                "_lembas/terminal/exit", TerminalExit(terminalId=channel.id, code=None)
            )
            for client in table.attachments.audience(channel.id).everyone:
                table.say(client, payload, channel.id)
        table.attachments.channel_ended(channel.id)

    def start_failed(self, what: StartFailed, now: float) -> None:
        channel = self._table.channels.pop(what.channel, None)
        if channel is None:
            return
        self._table.out.append(effects.CancelTimer(channel.id))
        self._give_up(channel, f"a process could not be started: {what.reason}; try again")
        self._room_made(now)

    def timer(self, channel_id: str, now: float) -> None:
        """A process did not say hello or make room in time, a link did not come back for its terminal, or a crash loop may be over."""
        if channel_id.startswith(_STEADY):
            self._settled(channel_id.removeprefix(_STEADY))
            return
        if channel_id.startswith(_REOPEN):
            self._table.ends.reopen(channel_id.removeprefix(_REOPEN))
            return
        if channel_id.startswith(_RESUME):
            waiting = self._table.channels.get(channel_id.removeprefix(_RESUME))
            if waiting is not None:
                self.unwanted(waiting, LINK_GONE)
            return
        channel = self._table.channels.get(channel_id)
        if channel is None or channel.state not in _TIMED:
            return
        del self._table.channels[channel_id]
        if channel.state is State.WAITING:
            self._no_room(channel)
        elif channel.state is State.STARTING:
            self._table.out.append(effects.Kill(channel_id))
            self._give_up(channel, _SLOW_START)
        elif channel.role == "pty":
            self._terminal_ended(channel, said_exit=False)
        else:
            self._fail(channel.waiting, _ELSEWHERE, "busy", retryable=True)
        self._room_made(now)

    def _give_up(self, channel: Channel, message: str) -> None:
        self._fail(channel.waiting, message, "start_failed", retryable=True)
        if channel.role == "pty" or not channel.stored:
            self._table.attachments.channel_ended(channel.id)

    def stop(self, reason: str) -> None:
        """Everything ends: nothing that waits is begun, and every process is told."""
        self._tidy = False
        for channel in self._table.channels.values():
            waiting, channel.waiting = channel.waiting, []
            self._fail(waiting, reason, "stopping")
            if channel.state is State.LIVE:
                self._table.send(channel.id, kinds.STOP, Stop(reason))

    # ── answers ─────────────────────────────────────────────────────────────────────────────────

    def _fail(
        self, waiting: list[Waiting], message: str, reason: str, *, retryable: bool = False
    ) -> None:
        for one in waiting:
            pending = self._table.requests.get(one.number)
            if pending is not None:
                self._table.fail(pending, message, reason, retryable=retryable)

    def _unknown(self, waiting: list[Waiting]) -> None:
        for one in waiting:
            pending = self._table.requests.get(one.number)
            if pending is not None:
                self.unknown_session(pending)

    def unknown_session(self, pending: Pending) -> None:
        """There is no such session: an error, but for `status`, which says so, and `delete`, which is done."""
        if pending.method == DELETE_METHOD:
            self._table.answer(pending, jsonrpc.result(pending.id, {"deleted": False}))
            return
        if pending.method != STATUS_METHOD:
            self._table.refuse(pending, INVALID_PARAMS, _UNKNOWN)
            return
        status = Status(
            sessionId=pending.channel,
            exists=False,
            held="none",
            busy=False,
            title="",
            turnId=None,
            queued=[],
            lastTurnId=None,
        )
        self._table.answer(pending, jsonrpc.result(pending.id, status))


def _may_attach(channel: Channel, waiting: Waiting) -> bool:
    """Whether naming a session attaches to it: the instance only to what it was given, which its worker judges."""
    if channel.role == "utility":
        return False
    made = waiting.target in (Target.NEW_SESSION, Target.NEW_TERMINAL)
    return made or channel.given or waiting.attach is None or waiting.attach.local
