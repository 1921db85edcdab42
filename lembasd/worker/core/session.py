"""One session: which turn runs, which wait, who is answered, and when its worker may end.

A turn id runs at most once: it is in the ledger before its `accepted` line is written, and whoever asks with a known
one gets that turn's answer. A turn goes through: judged (for a client that the limits bind), stored, ready, started,
its end stored; in each step prompts keep their order. The answer leaves after the end is on the disk.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec.structs import replace

from lembasd.protocol import events
from lembasd.protocol.acp import MODES, lowered, read_mode
from lembasd.protocol.context import Context, SaidContext, joined
from lembasd.protocol.control import Attached, Mode, QueuedTurn, SessionState, SettingKey
from lembasd.protocol.errors import DISK_LOW, DISK_REASON, INTERNAL_ERROR, INVALID_PARAMS
from lembasd.protocol.lembas import AnnounceParams, QueuedPrompt, Status
from lembasd.store.core.ledger import Answer, Ledger, as_record
from lembasd.store.records import (
    ContextSet,
    Given,
    ModeSet,
    SettingSet,
    TitleSet,
    TurnAccepted,
    TurnError,
)
from lembasd.worker.core import answers, effects, inputs
from lembasd.worker.core.about import About
from lembasd.worker.core.between import WORKS, Between
from lembasd.worker.core.effects import Effect
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.core.line import Line, Stage, Turn
from lembasd.worker.core.rest import ALONE, ALONE_S, Rest
from lembasd.worker.core.sharing import BACK, Sharing

#: a turn that was told to stop and has not ended by then is left to the end of its process
STOP_S: Final = 5.0
STOP: Final = "stop"
_FULL: Final = "too many prompts wait in this session; send it again when some are done"
_WAITS: Final = (
    "the disk of this computer is nearly full: the prompts that wait begin when there is room again"
)
#: of a session that is being deleted, as of one that is gone
_UNKNOWN: Final = TurnError(INVALID_PARAMS, "unknown session")


class Session:
    """The machine. `has_servers`: MCP servers of the client that made it, which no later process will have. `waiting`: the turns that an earlier life of the worker left queued, in order.

    `widest`: the mode that the person set, None: that is `mode`. `notice`: a sentence for the first client that looks, such as that the journal is damaged.
    """

    def __init__(
        self,
        about: About,
        *,
        mode: Mode,
        widest: Mode | None = None,
        title: str = "",
        ledger: Ledger | None = None,
        waiting: Sequence[TurnAccepted] = (),
        notice: str | None = None,
        given: bool = False,
        by_link: bool = False,
        context: Context | None = None,
        has_servers: bool = False,
        alone_s: float = ALONE_S,
    ) -> None:
        self.about = about
        self.mode: Mode = mode
        #: the mode that the person set: the model may narrow it, and never widen it beyond
        self.widest: Mode = mode if widest is None else widest
        self.title = title
        self.ledger = ledger if ledger is not None else Ledger()
        #: the instance was given the session
        self.given = given
        self._sharing = Sharing(by_link=by_link)
        self._context = context if context is not None else Context()
        self._notice = notice
        self._line = Line(waiting)
        #: the turn that runs, or whose end is being stored
        self._running: str | None = None
        #: ends being stored, and how each was; of turns that never started too
        self._ending: dict[str, Answer] = {}
        self._between = Between()
        #: who asked for the session's deletion; and that its removal is under way
        self._deleters: list[Waiter] = []
        self._removing = False
        self._waiters: dict[str, list[Waiter]] = {}
        self._clients: dict[int, Attached] = {}
        self._cards = 0
        self._hub = False
        #: another version is to have the session: this worker ends as soon as it may
        self._superseded = False
        #: what no other process could take up: it keeps this one
        self._holds: frozenset[str] = frozenset()
        #: the client that made the session gave it MCP servers, which are in this process alone
        self._has_servers = has_servers
        #: None until the settings came: nothing runs before
        self._max_mode: Mode | None = None
        self._connection: str | None = None
        self._idle_s = 0.0
        self._low_disk = False
        self._stopping = ""
        self._rest = Rest(alone_s)
        self._said: SessionState | None = None
        #: the prompts that clients were told of as waiting
        self._told_queue: list[QueuedPrompt] = []
        self._out: list[Effect] = []

    # ── what it says of itself ──────────────────────────────────────────────────────────────────

    @property
    def turn_id(self) -> str | None:
        """The turn that runs."""
        return self._running

    @property
    def queued(self) -> list[str]:
        """The turns that wait, in order."""
        return self._line.ids

    @property
    def queue(self) -> list[QueuedPrompt]:
        """The prompts that wait, as clients of this machine are told of them."""
        return self._line.queue

    @property
    def busy(self) -> bool:
        return self._has_turns or bool(self._between)

    @property
    def _has_turns(self) -> bool:
        return bool(self._running or self._line.turns or self._ending)

    @property
    def is_idle(self) -> bool:
        """Nothing runs or waits, and no person at this machine looks (the link is none).

        One that looks does not mind another version's process, unless it has given this one something.
        """
        if self.busy or self._cards or self._holds:
            return False
        return not self._local_attached or (self._superseded and not self._has_servers)

    @property
    def _local_attached(self) -> bool:
        return any(client.local for client in self._clients.values())

    @property
    def _is_held_locally(self) -> bool:
        """Whether a person at this machine has it, not only looks at it."""
        return any(client.local and client.opened for client in self._clients.values())

    @property
    def shared(self) -> bool:
        """Whether it is shown to the instance while a terminal has it."""
        return self._sharing.is_on

    @property
    def state(self) -> SessionState:
        return SessionState(
            busy=self.busy,
            turn_id=self._running,
            queued=[QueuedTurn(turn_id) for turn_id in self.queued],
            last_turn_id=self.ledger.last_done,
            title=self.title,
            root=self.about.root,
            mode=self.mode,
            model=self.about.model,
            given=self.given,
            holds=sorted(self._holds),
        )

    @property
    def status(self) -> Status:
        return Status(
            sessionId=self.about.session_id,
            exists=True,
            held="terminal" if self._is_held_locally else "here",
            busy=self.busy,
            title=self.title,
            turnId=self._running,
            queued=self.queued,
            lastTurnId=self.ledger.last_done,
        )

    def is_local(self, waiter: Waiter) -> bool:
        """Whether a person at this machine asks; who is not known to is bound by the limits."""
        attached = self._clients.get(waiter.client)
        return waiter.local or (attached is not None and attached.local)

    # ── inputs ──────────────────────────────────────────────────────────────────────────────────

    def handle(self, what: inputs.Input, now: float) -> list[Effect]:
        """Take one input; `now` is monotonic seconds. The effects are to be performed in order."""
        self._out = []
        match what:
            case (
                inputs.PromptAsked()
                | inputs.Judged()
                | inputs.Accepted()
                | inputs.AcceptFailed()
                | inputs.TurnFinished()
                | inputs.EndStored()
            ):
                self._turn_input(what)
            case inputs.CompactAsked() | inputs.ConfigureAsked() | inputs.RewindAsked():
                self._between_asked(what)
            case inputs.Compacted() | inputs.Configured() | inputs.Rewound() | inputs.NotAdmitted():
                self._between_ended(what)
            case (
                inputs.ModeAsked()
                | inputs.ModeCommanded()
                | inputs.TitleAsked()
                | inputs.Wished()
                | inputs.CancelAsked()
                | inputs.SteerAsked()
                | inputs.ClientAttached()
                | inputs.ClientDetached()
            ):
                self._client_input(what)
            case inputs.ShareAsked() | inputs.ShareJudged() | inputs.LeftJudged():
                self._share_input(what, now)
            case _:
                self._life_input(what, now)
        self._advance()
        self._tell_queue()
        self._say_state()
        self._settle(now)
        return self._out

    def _turn_input(self, what: inputs.TurnInput) -> None:
        match what:
            case inputs.PromptAsked():
                self._prompt(what)
            case inputs.Judged():
                self._judged(what)
            case inputs.Accepted(turn_id):
                self._accepted(turn_id)
            case inputs.AcceptFailed():
                self._accept_failed(what)
            case inputs.TurnFinished(turn_id, answer):
                if turn_id == self._running and turn_id not in self._ending:
                    self._end(turn_id, answer)
            case inputs.EndStored():
                self._end_stored(what)
            case _:
                assert_never(what)

    def _client_input(self, what: inputs.ClientInput) -> None:
        match what:
            case inputs.ModeAsked(waiter, mode):
                local = self.is_local(waiter)
                self._person_sets(mode if local else lowered(mode, self._ceiling))
                self._out.append(effects.Reply(waiter, {}))
            case inputs.ModeCommanded(mode):
                self._person_sets(mode)
            case inputs.TitleAsked(waiter, title):
                if title != self.title:
                    self._use_title(title)
                self._out.append(effects.Reply(waiter, {"title": title}))
            case inputs.Wished(key, value):
                self._wish(key, value)
            case inputs.CancelAsked():
                self._cancel()
            case inputs.SteerAsked():
                self._steer(what)
            case inputs.ClientAttached(attached):
                self._attached(attached)
            case inputs.ClientDetached(client):
                self._clients.pop(client, None)
                self._let_go()
            case _:
                assert_never(what)

    def _life_input(self, what: inputs.LifeInput, now: float) -> None:
        match what:
            case inputs.WriteFailed(problem):
                text = f"a change of this session was not stored ({problem}); free some space on the disk"
                self._out.append(effects.Emit(events.Notice(level="warning", text=text)))
            case inputs.HubJoined() | inputs.HubUnspeakable() | inputs.HubLost():
                self._hub_input(what, now)
            case inputs.SettingsCame():
                self._settings_came(what)
            case inputs.Holds(held):
                self._holds = held
            case inputs.CardsWait(count):
                self._cards = count
            case inputs.Admitted():
                self._give()
            case inputs.DeleteAsked(waiter):
                self._delete(waiter, now)
            case inputs.Removed(problem):
                self._removed(problem)
            case inputs.YieldAsked() | inputs.LeaveGranted() | inputs.StopAsked():
                self._end_asked(what, now)
            case inputs.TimerFired(key):
                self._timer_fired(key)
            case _:
                assert_never(what)

    def _hub_input(
        self, what: inputs.HubJoined | inputs.HubUnspeakable | inputs.HubLost, now: float
    ) -> None:
        match what:
            case inputs.HubJoined(superseded):
                self._hub, self._said, self._superseded = True, None, superseded
                self._out += self._sharing.nobody_here(now)
            case inputs.HubUnspeakable():
                self._superseded = True
            case inputs.HubLost():
                # without a hub nobody says when there is room again: what waits begins, and is told of a full disk
                self._hub, self._low_disk = False, False
                self._clients.clear()
                self._waiters.clear()
            case _:
                assert_never(what)

    def _end_asked(
        self, what: inputs.YieldAsked | inputs.LeaveGranted | inputs.StopAsked, now: float
    ) -> None:
        match what:
            case inputs.YieldAsked():
                if self.is_idle and not self._stopping:
                    self._out.append(effects.SayLeaving())
            case inputs.LeaveGranted():
                self._stop("this session's process ends", now)
            case inputs.StopAsked(reason):
                self._stop(reason, now)
            case _:
                assert_never(what)

    def _settings_came(self, what: inputs.SettingsCame) -> None:
        self._max_mode, self._idle_s, self._connection = (
            what.max_mode,
            what.idle_s,
            what.connection,
        )
        self._sharing.setting = what.share
        if what.low_disk and not self._low_disk and self._line.turns:
            self._out.append(effects.Emit(events.Notice(level="warning", text=_WAITS)))
        self._low_disk = what.low_disk

    # ── a turn's way ────────────────────────────────────────────────────────────────────────────

    def _prompt(self, what: inputs.PromptAsked) -> None:
        turn_id = what.turn_id
        known = self.ledger.find(turn_id)
        if known is not None and known.answer is not None:
            self._answer(what.waiter, turn_id, known.answer)
        elif known is not None or turn_id in self.queued:
            self._waiters.setdefault(turn_id, []).append(what.waiter)
        elif self._deleters:
            self._out.append(effects.Refuse(what.waiter, _UNKNOWN))
        elif self._stopping:
            error = TurnError(INTERNAL_ERROR, self._stopping, {"reason": "stopping"})
            self._out.append(effects.Refuse(what.waiter, error))
        elif self._low_disk:
            error = TurnError(INTERNAL_ERROR, DISK_LOW, {"reason": DISK_REASON, "retryable": True})
            self._out.append(effects.Refuse(what.waiter, error))
        elif self._line.is_full or not self._line.has_room_for(what.upload_bytes):
            error = TurnError(INTERNAL_ERROR, _FULL, {"reason": "busy", "retryable": True})
            self._out.append(effects.Refuse(what.waiter, error))
        else:
            self._waiters[turn_id] = [what.waiter]
            local = self.is_local(what.waiter)
            is_judged = local and not what.uploads
            stage = Stage.JUDGED if is_judged else Stage.JUDGING
            turn = Turn(turn_id, what.text, what.at, stage, local=local, said=what.said)
            turn.upload_bytes = what.upload_bytes
            self._line.add(turn)
            if not is_judged:
                self._out.append(effects.Judge(turn_id, not local, what.uploads))

    def _judged(self, what: inputs.Judged) -> None:
        turn, refused = self._line.find(what.turn_id), what.refused
        if turn is None or turn.stage is not Stage.JUDGING:
            return
        if refused is not None:
            self._line.remove(turn)
            answer = answers.failed(refused.message, refused.data, refused.code)
            self._answer_all(what.turn_id, answer)
            return
        turn.stage, turn.attachments = Stage.JUDGED, what.attachments
        if not turn.local:
            self._give()
            self.widest = lowered(self.widest, self._ceiling)
            if lowered(self.mode, self._ceiling) != self.mode:
                self._use_mode(self._ceiling)

    def _accepted(self, turn_id: str) -> None:
        turn = self._line.find(turn_id)
        if turn is None:
            return
        turn.stage = Stage.READY
        if not self.title:
            # a later prompt may be on the disk earlier: the session is called by its first one
            first = self._line.turns[0]
            self._use_title(answers.title_of(first.text, (one.name for one in first.attachments)))

    def _accept_failed(self, what: inputs.AcceptFailed) -> None:
        turn = self._line.find(what.turn_id)
        if turn is None:
            return
        self._line.remove(turn)
        sentence = f"the prompt could not be stored and was not run ({what.problem}); free some space, then send it again"
        answer = answers.failed(sentence, {"reason": answers.STORE})
        if what.written:
            # the line may be on the disk all the same: without an end the turn would run at the next opening
            self.ledger.end(what.turn_id, answer, turn.at)
            self._out.append(effects.Write(as_record(what.turn_id, answer)))
        else:
            self.ledger.forget(what.turn_id)
        self._answer_all(what.turn_id, answer)

    def _advance(self) -> None:
        """Take every turn as far as it can go now."""
        for turn in self._line.take_judged():
            self._use_context(turn.said)
            self.ledger.accept(turn.turn_id, turn.at)
            self._out.append(
                effects.StoreAccepted(turn.turn_id, turn.text, turn.attachments, turn.local)
            )
        for turn in self._line.take_cancelled():
            self._end(turn.turn_id, answers.CANCELLED)
        if self._between:
            self._out += self._between.begin()
        elif self._running is None and self._max_mode is not None and not self._low_disk:
            following = self._line.take_next()
            if following is not None:
                self._start(following)

    def _start(self, turn: Turn) -> None:
        self._running = turn.turn_id
        self.ledger.start(turn.turn_id, turn.at)
        self._out += [
            effects.Emit(answers.prompt_event(turn)),
            effects.Emit(events.Task(state="start", turnId=turn.turn_id)),
            effects.StartTurn(turn.turn_id, turn.text, turn.attachments, turn.local),
        ]

    def _end(self, turn_id: str, answer: Answer) -> None:
        self._ending[turn_id] = answer
        self._out.append(effects.StoreEnd(turn_id, answer))

    def _end_stored(self, what: inputs.EndStored) -> None:
        answer = self._ending.pop(what.turn_id, None)
        if answer is None:
            return
        if what.problem is not None and not (answer.error and answers.is_ours(answer.error)):
            sentence = f"the turn ran, but its end could not be stored ({what.problem}); free some space and look at what it did"
            answer = answers.failed(sentence, {"reason": answers.STORE})
        if what.problem is not None and not what.written:
            # without an end the turn would have another outcome, or even run, at the next opening
            self._out.append(effects.Write(as_record(what.turn_id, answer)))
        self.ledger.end(what.turn_id, answer, what.at)
        if answer.stop_reason is not None:
            self._out.append(
                effects.Emit(events.Done(turnId=what.turn_id, stopReason=answer.stop_reason))
            )
        elif answer.error is not None and answers.is_ours(answer.error):
            self._out.append(effects.Emit(answers.error_event(answer.error)))
        if what.turn_id == self._running:
            self._running = None
            self._out.append(effects.Emit(events.Task(state="end", turnId=what.turn_id)))
        self._answer_all(what.turn_id, answer)

    def _answer_all(self, turn_id: str, answer: Answer) -> None:
        for waiter in self._waiters.pop(turn_id, []):
            self._answer(waiter, turn_id, answer)

    def _answer(self, waiter: Waiter, turn_id: str, answer: Answer) -> None:
        if answer.error is not None:
            error = answers.prompt_error(answer.error, answer.unsent)
            self._out.append(effects.Refuse(waiter, error))
        elif answer.stop_reason is not None:
            result = answers.prompt_result(turn_id, answer.stop_reason, answer)
            self._out.append(effects.Reply(waiter, result))

    def _cancel(self) -> None:
        """Stop the turn that runs, or the summary that is made; before a turn runs, the one that is next."""
        if self._works:
            self._out.append(effects.CancelTurn())
        elif self._running is None:
            self._line.cancel_next()

    def _steer(self, what: inputs.SteerAsked) -> None:
        if self._turn_works:
            local = self.is_local(what.waiter)
            self._out.append(effects.Steer(what.waiter, what.text, what.message_id, local))
        else:
            error = TurnError(INVALID_PARAMS, answers.NOTHING_RUNS)
            self._out.append(effects.Refuse(what.waiter, error))

    @property
    def _turn_works(self) -> bool:
        """Whether the engine is at work on a turn: one whose end is being stored is over."""
        return self._running is not None and self._running not in self._ending

    @property
    def _works(self) -> bool:
        return self._between.is_summing or self._turn_works

    # ── between turns ───────────────────────────────────────────────────────────────────────────

    def _between_asked(self, what: inputs.BetweenTurns) -> None:
        refused: TurnError | None = None
        if self._deleters:
            refused = _UNKNOWN
        elif self._stopping:
            refused = TurnError(INVALID_PARAMS, self._stopping)
        elif self._has_turns or not self._between.add(what, judge=not self.is_local(what.waiter)):
            refused = WORKS
        if refused is not None:
            self._out.append(effects.Refuse(what.waiter, refused))

    def _between_ended(self, what: inputs.BetweenEnded) -> None:
        waiter = self._between.ended()
        if waiter is None:
            return
        match what:
            case _ if what.error is not None:
                self._out.append(effects.Refuse(waiter, what.error))
            case inputs.Compacted(summary=summary):
                self._out.append(effects.Reply(waiter, {"summary": summary}))
            case inputs.Rewound(reverted=reverted):
                self._out.append(effects.Reply(waiter, {"reverted": reverted}))
            case inputs.Configured(model=model, effort=effort):
                self._use_model(model, effort)
                self._out.append(effects.Reply(waiter, {"model": model, "effort": effort}))
            case _:
                assert_never(what)

    # ── clients and modes ───────────────────────────────────────────────────────────────────────

    def _attached(self, attached: Attached) -> None:
        self._clients[attached.client] = attached
        if not attached.local and self.shared:
            self._out.append(effects.Announce(attached.client, self._announced))
        elif attached.local:
            shares, judged = self._sharing.opened(attached, given=self.given)
            self._out += judged
            if shares:
                self._share()
        if not attached.protocol:
            return
        session = self.about.event(self.title, self.mode)
        self._out.append(effects.EmitTo(attached.client, session))
        if self._notice is not None:
            notice = events.Notice(level="warning", text=self._notice)
            self._out.append(effects.EmitTo(attached.client, notice))
            self._notice = None

    # ── sharing ─────────────────────────────────────────────────────────────────────────────────

    def _share_input(self, what: inputs.ShareInput, now: float) -> None:
        match what:
            case inputs.ShareAsked():
                self._share_asked(what, now)
            case inputs.ShareJudged(allowed):
                if allowed and self._local_attached:
                    self._share()
            case inputs.LeftJudged(available):
                self._out += self._sharing.left(self._clients.values(), available=available)
            case _:
                assert_never(what)

    def _share_asked(self, what: inputs.ShareAsked, now: float) -> None:
        refused = self._sharing.refusal if what.shared else None
        if refused is not None:
            self._out.append(effects.Refuse(what.waiter, refused))
            return
        if what.shared:
            self._share()
            if not self._local_attached:
                # a command asked, which does not stay
                self._out += self._sharing.nobody_here(now)
        elif self.shared or (self.given and not self._sharing.by_link):
            self._take_back()
        self._out.append(effects.Reply(what.waiter, {"shared": what.shared}))

    def _share(self) -> None:
        self._out += self._sharing.begin(self._clients.values(), self._announced)
        self._give()

    def _let_go(self) -> None:
        if not self._local_attached:
            self._out += self._sharing.let_go()

    def _take_back(self) -> None:
        """A person wants it shown no more: the instance is told that it is over, and then nothing."""
        self._sharing.is_on = False
        self._out += self._sharing.left(self._clients.values(), available=False)
        self.given = False
        self._said = self.state
        self._out += [
            effects.Write(Given(back=True)),
            effects.SayState(self.state, in_turn=True),
        ]

    @property
    def _announced(self) -> AnnounceParams:
        return AnnounceParams(
            sessionId=self.about.session_id,
            cwd=self.about.root,
            title=self.title,
            model=self.about.model,
            # a device has one server, and every model is its
            instance=True,
            mode=self.mode,
            effort=self.about.effort,
            busy=self.busy,
        )

    @property
    def _ceiling(self) -> Mode:
        """The widest mode for a client that the limits bind; the narrowest while they are not known."""
        return self._max_mode if self._max_mode is not None else MODES[0]

    def _person_sets(self, mode: Mode) -> None:
        before = self.mode
        self._use_mode(mode)
        if self.mode != before:
            self._out.append(effects.Emit(events.Setting("mode", self.mode)))

    def _wish(self, key: SettingKey, value: str) -> None:
        match key:
            case "mode":
                mode = lowered(read_mode(value) or MODES[0], self.widest)
                self._use_mode(mode, by_tool=True)
                value = mode
            case "title":
                self._use_title(value)
            case "effort":
                self._use_effort(value)
            case "verbosity":
                self._out.append(effects.Write(SettingSet(key=key, value=value)))
            case _:
                assert_never(key)
        self._out.append(effects.Emit(events.Setting(key=key, value=value)))

    def _use_title(self, title: str) -> None:
        self.title = title
        self._out += [
            effects.Write(TitleSet(title=title)),
            effects.Emit(events.Title(id=self.about.session_id, title=title)),
        ]

    def _use_model(self, model: str, effort: str) -> None:
        if model != self.about.model:
            self._out += [
                effects.Write(SettingSet(key="model", value=model)),
                effects.UseModel(model),
            ]
        elif effort == self.about.effort:
            return
        self.about = replace(self.about, model=model)
        self._use_effort(effort)

    def _use_effort(self, effort: str) -> None:
        self.about = replace(self.about, effort=effort)
        # a device has one server, and every model is its
        changed = events.ModelChanged(self.about.model, effort, self._connection, instance=True)
        self._out += [
            effects.Write(SettingSet(key="effort", value=effort)),
            effects.UseEffort(effort),
            effects.Emit(changed),
        ]

    def _use_context(self, said: SaidContext) -> None:
        context = joined(self._context, said)
        if context != self._context:
            self._context = context
            self._out += [effects.Write(ContextSet(context=context)), effects.UseContext(context)]

    def _give(self) -> None:
        if not self.given:
            self.given = True
            self._out.append(effects.Write(Given()))

    def _use_mode(self, mode: Mode, *, by_tool: bool = False) -> None:
        if mode == self.mode and (by_tool or mode == self.widest):
            return
        self.mode = mode
        self.widest = self.widest if by_tool else mode
        self._out += [
            effects.Write(ModeSet(mode=mode, by_tool=by_tool)),
            effects.UseMode(mode),
            effects.Emit(events.ModeChanged(mode=mode)),
        ]

    # ── its own end ─────────────────────────────────────────────────────────────────────────────

    def _stop(self, reason: str, now: float) -> None:
        if self._stopping:
            return
        self._end_all(reason, answers.failed(reason, {"reason": "stopping"}), now)

    def _end_all(self, reason: str, answer: Answer, now: float) -> None:
        """Cancel what runs; nothing is begun any more. `answer`: of prompts of which nothing is stored."""
        self._stopping = reason
        self._out.append(effects.SetTimer(STOP, now + STOP_S))
        if self._works:
            self._out.append(effects.CancelTurn())
        for turn in self._line.cancel_all():
            self._answer_all(turn.turn_id, answer)
        error = _UNKNOWN if self._deleters else TurnError(INVALID_PARAMS, reason)
        self._out += [effects.Refuse(one, error) for one in self._between.drop_waiting()]

    def _delete(self, waiter: Waiter, now: float) -> None:
        self._deleters.append(waiter)
        if not self._stopping:
            # a prompt of a session that is deleted is answered `cancelled` (decisions.md, wire 4)
            self._end_all("the session is deleted", answers.CANCELLED, now)

    def _removed(self, problem: str | None) -> None:
        if problem is not None:
            text = f"the session could not be deleted ({problem}); see to the disk, then try again"
            error = TurnError(INTERNAL_ERROR, text, {"reason": answers.STORE})
            self._out += [effects.Refuse(one, error) for one in self._deleters]
        else:
            asked = {waiter.client for waiter in self._deleters}
            self._out += [
                # the instance is told by the hub, which keeps the word where there is no link
                effects.TellDeleted(client.client)
                for client in self._clients.values()
                if client.local and client.protocol and client.client not in asked
            ]
            self._out += [effects.Reply(one, {"deleted": True}) for one in self._deleters]
        self._out.append(effects.End())

    def _timer_fired(self, key: str) -> None:
        if key == BACK:
            self._let_go()
            return
        if key == STOP:
            if self._deleters and not self._removing:
                self._remove()
            elif not self._removing:
                self._out.append(effects.End(clean=False))
            return
        if self._rest.fired(key):
            # a hub that has a reason to keep this worker says nothing; it is asked again after the next idle time
            leaving = effects.SayLeaving(self._superseded)
            self._out.append(effects.End() if key == ALONE else leaving)

    def _tell_queue(self) -> None:
        queue = self.queue
        if queue != self._told_queue:
            self._told_queue = queue
            self._out.append(effects.Emit(events.Queue(queue)))

    def _say_state(self) -> None:
        state = self.state
        if self._hub and state != self._said:
            self._said = state
            self._out.append(effects.SayState(state))

    def _remove(self) -> None:
        self._removing = True
        # the instance knows of what it asked for itself
        tell = all(self.is_local(waiter) for waiter in self._deleters)
        self._out.append(effects.Remove(tell))

    def _settle(self, now: float) -> None:
        """End when stopping is done; else keep the one timer that fits how things are."""
        if self._stopping:
            if self.busy or self._removing:
                return
            if self._deleters:
                self._remove()
            else:
                self._out.append(effects.End())
            return
        idle = self.is_idle and self._max_mode is not None
        self._out += self._rest.follow(
            idle=idle, hub=self._hub, superseded=self._superseded, idle_s=self._idle_s, now=now
        )
