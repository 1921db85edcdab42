"""An open session: performs what its machines decide, on its store, its engine and its hub.

No policy lives here. Inputs queue while effects are performed, so that each input meets the state the last one left.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, assert_never

import msgspec

from lembasd.device import limits
from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.engine.api import (
    CardRequest,
    Decision,
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
    TurnInput,
)
from lembasd.engine.core import cards
from lembasd.engine.core.card_kinds import Watcher
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import (
    Account,
    AttachAsked,
    Attached,
    Leaving,
    Mode,
    SessionState,
    SettingKey,
    Settings,
)
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RequestRefused
from lembasd.protocol.events import AnyEvent
from lembasd.protocol.hello import SessionHello
from lembasd.protocol.lembas import AssistantTurn, AvailableCommand, LeftParams, Snapshot, UserTurn
from lembasd.store import deleting, recent_files, turns
from lembasd.store.apart import run_apart
from lembasd.store.core import rewinding
from lembasd.store.core.ledger import Answer, Turn, as_record
from lembasd.store.journal import NoSession, read
from lembasd.store.records import (
    AnyRecord,
    Attachment,
    Rewound,
    ToolResult,
    TurnAccepted,
    TurnEnded,
    TurnError,
    TurnStarted,
)
from lembasd.worker import opening, replies
from lembasd.worker.card_desk import CardDesk
from lembasd.worker.core import effects, inputs, requests, translate
from lembasd.worker.core.answers import CANCELLED, STORE, failed
from lembasd.worker.core.blocks import Upload
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.core.live import Live
from lembasd.worker.core.openers import Openers
from lembasd.worker.core.outbox import Outbox
from lembasd.worker.core.session import Session
from lembasd.worker.host import KeptLists, SessionHost
from lembasd.worker.measure import Measure
from lembasd.worker.opening import Store
from lembasd.worker.ports import EngineFactory, ModelChooser, Wire
from lembasd.worker.snapshots import Snapshots
from lembasd.worker.timers import Timers

#: a directory that does not answer by then is on a disk that hangs: the prompt is refused
JUDGE_S: Final = 10.0
#: files of a prompt that are not stored by then are on a disk that hangs: the prompt is refused
STORE_S: Final = 60.0
#: the hub answers a question for the login by sending the settings; it does so at once
ACCOUNT_S: Final = 5.0
#: the timer of ends that there was no room for, and how often it is looked whether there is: a write that fails costs nothing
OWED: Final = "owed"
OWED_S: Final = 1.0
#: a client that says nothing of a file by then has not shown it
SHOW_S: Final = 60.0
_HANGS: Final = "the session's directory does not answer; see to its disk, then send it again"
_NO_TURN: Final = "the session has no such turn; name one of its history"
#: what is judged by the limits before the session is given it
Judgeable = inputs.ModeAsked | inputs.TitleAsked | inputs.SteerAsked


class OpenSession:
    """`spawn` runs a coroutine as a task of the worker; `end` ends the process (True: all is in order)."""

    def __init__(
        self,
        paths: Paths,
        store: Store,
        settings: Settings,
        wire: Wire,
        make_engine: EngineFactory,
        choose: ModelChooser,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        end: Callable[[bool], None],
    ) -> None:
        about = store.about
        self.id = about.session_id
        self.settings = settings
        self._paths = paths
        self._choose = choose
        self._lists = KeptLists(paths)
        self._epoch = store.epoch
        self._root = Path(about.root)
        self._paths = paths
        self._journal = store.journal
        self._paths = paths
        self._turns_file = turns.path_of(paths, self.id)
        self._wire = wire
        self._spawn = spawn
        self._end = end
        self._session = Session(
            about,
            mode=store.mode,
            widest=store.widest,
            title=store.title,
            ledger=store.ledger,
            waiting=store.waiting,
            notice=store.notice,
            given=store.given,
            by_link=store.by_link,
            context=store.context,
            has_servers=bool(store.servers),
        )
        self._outbox = Outbox(self.id, store.epoch)
        self._cards = CardDesk(
            self.id,
            store.epoch,
            self.say,
            self._cards_changed,
            lambda request_id: spawn(self._judge_answer(request_id)),
        )
        self._live = Live()
        self._snapshots = Snapshots(
            paths, self.id, store.journal, self._outbox, self.say, self._stands
        )
        self._openers = Openers(by_link=store.by_link)
        self._clients: dict[int, Attached] = {}
        #: what clients were told of; None: nobody was there to be told
        self._commands: list[AvailableCommand] | None = None
        self._inputs: deque[inputs.Input] = deque()
        self._performing = False
        self._timers = Timers()
        self._settings_news = asyncio.Event()
        #: the running turn was cancelled; it matters to one whose engine has not begun
        self._cancelled = False
        self._measure = Measure(self._measured)
        host = SessionHost(self.id, self._root, paths, store.journal, self, store.servers)
        self._used = host.used
        records, store.records = store.records, []
        self._engine = make_engine(
            host,
            records,
            mode=store.mode,
            model=about.model,
            effort=about.effort,
            epoch=store.epoch,
        )

    # ── what the worker tells it ────────────────────────────────────────────────────────────────

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def given(self) -> bool:
        """Whether the instance was given the session."""
        return self._session.given

    def hello(self) -> SessionHello:
        state = self._session.state
        return SessionHello(
            session_id=self.id,
            epoch=self._epoch,
            seq=self._outbox.seq,
            title=state.title,
            root=state.root,
            mode=state.mode,
            model=state.model,
            turn_id=state.turn_id,
            queued=state.queued,
            last_turn_id=state.last_turn_id,
            cards=self._cards.waiting,
            given=self.given,
        )

    @property
    def pending(self) -> bool:
        """Whether something is not given to the hub's socket yet."""
        return self._outbox.waits

    def new_settings(self, settings: Settings) -> None:
        self.settings = settings
        self._settings_news.set()
        connection = settings.account.connection if settings.account is not None else None
        self.feed(
            inputs.SettingsCame(
                settings.remote.max_mode,
                settings.worker_idle_s,
                connection,
                settings.low_disk,
                settings.share,
            )
        )

    def hub_joined(self, *, superseded: bool) -> None:
        """`superseded`: the hub is of another version, which is to have the session next."""
        self.feed(inputs.HubJoined(superseded))
        self.hub_writable()

    def hub_writable(self) -> None:
        for message in self._outbox.drain():
            self._wire.send(message)

    def hub_lost(self) -> None:
        self._outbox.hub_lost()
        self._clients.clear()
        self._cards.feed(cards.AllDetached())
        self.feed(inputs.HubLost())

    def attached(self, attached: Attached) -> None:
        """A client is there: who it is talking to, what it missed, what waits for it."""
        client = attached.client
        if attached.known:
            self._cards.feed(cards.Lowered(client))
            return
        attached = self._openers.resolved(attached)
        self._clients[client] = attached
        self.feed(inputs.ClientAttached(attached))
        if attached.since is not None and not attached.local:
            # who is here was given it with the answer to its attach
            lembas = attached.protocol > 0
            for message in self._outbox.replay(client, attached.since, lembas=lembas):
                self._wire.send(message)
        watcher = Watcher(attached.local, attached.protocol, attached.show, attached.opened)
        self._cards.feed(cards.Attached(client, watcher))
        self._spawn(self._tell_commands(client))

    async def _tell_commands(self, client: int | None) -> None:
        """Tell one client of the commands that there are; None: all, when there are others than those they were told of."""
        commands = await self._engine.commands()
        if client is None and commands == self._commands:
            return
        self._commands = commands
        payload = translate.commands_update(self.id, commands)
        for one in [client] if client is not None else list(self._clients):
            if one in self._clients:
                self.say(replies.to_client(self.id, one, payload))

    def detached(self, client: int) -> None:
        self._clients.pop(client, None)
        self._cards.feed(cards.Detached(client))
        self.feed(inputs.ClientDetached(client))

    def resend(self, client: int, epoch: int, seq: int) -> None:
        attached = self._clients.get(client)
        lembas = attached is not None and attached.protocol > 0
        local = attached is not None and attached.local
        for message in self._outbox.resend(client, epoch, seq, lembas=lembas, local=local):
            self._wire.send(message)

    def replied(self, reply: cards.Replied) -> None:
        """A client's reply to a card."""
        self._cards.feed(reply)

    async def _judge_answer(self, request_id: str) -> None:
        """Judge whether an answer of the link counts that may allow something, by the limits as they are now."""
        refused = ""
        try:
            await self._judged()
        except RequestRefused as why:
            refused = why.message
        ceiling = self.settings.remote.max_mode
        self._cards.feed(cards.Judged(request_id, refused, ceiling))

    def say(self, message: Envelope) -> None:
        """Send what is for one client after everything said before it."""
        for one in self._outbox.put(message, ready=self._wire.ready):
            self._wire.send(one)

    async def attach(self, waiter: Waiter, asked: AttachAsked) -> None:
        """Answer a client of this machine that joins."""
        await self._snapshots.answer(waiter, asked)

    def _stands(self, turns: list[UserTurn | AssistantTurn]) -> Snapshot:
        session = self._session
        return Snapshot(
            title=session.title,
            root=session.about.root,
            mode=session.mode,
            model=session.about.model,
            effort=session.about.effort,
            shared=session.shared,
            given=session.given,
            turns=turns,
            live=self._live.events,
            queued=session.queue,
            plan=None,
            usage=self._live.usage,
            cards=[one.tool_call_id for one in self._cards.waiting],
            turnId=session.turn_id,
            lastTurnId=session.ledger.last_done,
        )

    def say_status(self, waiter: Waiter) -> None:
        self.say(replies.result(self.id, waiter, self._session.status))

    async def close(self) -> None:
        """End the engine's processes and let go of the store."""
        self._timers.close()
        self._cards.close()
        try:
            await self._engine.aclose()
        finally:
            self._journal.close()

    # ── what the engine asks (host.Side) ────────────────────────────────────────────────────────

    def message_recorded(self) -> None:
        self._live.recorded()

    def emit(self, event: AnyEvent) -> None:
        self._live.said(event)
        for message in self._outbox.say(event, ready=self._wire.ready):
            self._wire.send(message)

    async def ask(self, card: CardRequest) -> Decision:
        return await self._cards.ask(card, self._answer_s)

    async def put_questions(self, asked: QuestionRequest) -> QuestionOutcome:
        return await self._cards.ask(asked, self._answer_s)

    async def submit_plan(self, plan: PlanRequest) -> PlanOutcome:
        return await self._cards.ask(plan, self._answer_s)

    async def show(self, file: ShowRequest) -> ShowOutcome:
        return await self._cards.ask(file, SHOW_S)

    @property
    def _answer_s(self) -> float | None:
        """How long an answer is waited for where the instance has the session."""
        return self.settings.remote.approval_timeout_s if self.given else None

    @property
    def widest_mode(self) -> Mode:
        return self._session.widest

    def command_mode(self, mode: Mode) -> None:
        self.feed(inputs.ModeCommanded(mode))

    def wish(self, key: SettingKey, value: str) -> None:
        self.feed(inputs.Wished(key, value))

    def _cards_changed(self, count: int) -> None:
        self.feed(inputs.CardsWait(count))

    async def newer_account(self, refused: Account | None) -> Account | None:
        if self.settings.account == refused:
            self._settings_news.clear()
            need = msgspec.json.encode({"what": "account"})
            self._wire.control(Envelope(kind=kinds.NEED, channel=self.id, payload=need))
            try:
                async with asyncio.timeout(ACCOUNT_S):
                    await self._settings_news.wait()
            except TimeoutError:
                return None
        return self.settings.account if self.settings.account != refused else None

    # ── the session ─────────────────────────────────────────────────────────────────────────────

    def feed(self, what: inputs.Input) -> None:
        """Give the machine an input and perform what it decides."""
        self._inputs.append(what)
        if self._performing:
            return
        self._performing = True
        try:
            while self._inputs:
                for effect in self._session.handle(self._inputs.popleft(), self.now):
                    self._perform(effect)
        finally:
            self._performing = False

    def _perform(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Reply(waiter, value):
                self.say(replies.result(self.id, waiter, value))
            case effects.Refuse(waiter, error):
                self.say(replies.error(self.id, waiter, error))
            case effects.Emit(event):
                self.emit(event)
            case effects.EmitTo(client, event):
                payload = translate.messages(self.id, event)[0].payload
                self.say(replies.to_client(self.id, client, payload))
            case effects.SayState(state, in_turn):
                self._say_state(state, in_turn=in_turn)
            case (
                effects.JudgeShare()
                | effects.JudgeLeft()
                | effects.Announce()
                | effects.SayLeft()
                | effects.TellDeleted()
            ):
                self._tell_of_session(effect)
            case effects.SetTimer(key, at):
                self._timers.set(key, at, partial(self.feed, inputs.TimerFired(key)))
            case effects.CancelTimer(key):
                self._timers.cancel(key)
            case effects.SayLeaving(superseded):
                payload = msgspec.json.encode(Leaving(superseded))
                self._wire.control(Envelope(kind=kinds.LEAVING, channel=self.id, payload=payload))
            case effects.End(clean):
                self._end(clean)
            case effects.StartCompaction() | effects.Choose() | effects.Rewind() | effects.Remove():
                self._spawn(self._apart(effect))
            case _:
                self._perform_turn(effect)

    def _tell_of_session(
        self,
        effect: effects.JudgeShare
        | effects.JudgeLeft
        | effects.Announce
        | effects.SayLeft
        | effects.TellDeleted,
    ) -> None:
        """Tell a client that the session is shared, no more, or gone, and find out what there is to tell."""
        match effect:
            case effects.TellDeleted(client):
                payload = jsonrpc.notification("_lembas/session/deleted", {"sessionId": self.id})
                self.say(replies.to_client(self.id, client, payload))
            case effects.JudgeShare():
                self._spawn(self._judge_share())
            case effects.JudgeLeft():
                self._spawn(self._judge_left())
            case effects.Announce(client, params):
                payload = jsonrpc.notification("_lembas/session/announce", params)
                self.say(replies.to_client(self.id, client, payload))
            case effects.SayLeft(client, available):
                payload = jsonrpc.notification(
                    "_lembas/session/left", LeftParams(self.id, available)
                )
                self.say(replies.to_client(self.id, client, payload))
            case _:
                assert_never(effect)

    async def _apart(
        self,
        effect: effects.StartCompaction | effects.Choose | effects.Rewind | effects.Remove,
    ) -> None:
        """What is done while no turn runs."""
        if not isinstance(effect, effects.Remove) and effect.judge:
            try:
                await self._judged()
            except RequestRefused as refused:
                error = TurnError(refused.code, refused.message, refused.data)
                self.feed(inputs.NotAdmitted(error))
                return
            self.feed(inputs.Admitted())
        match effect:
            case effects.StartCompaction():
                await self._compact()
            case effects.Choose(model, effort):
                self.feed(await self._chosen(model, effort))
            case effects.Rewind(turn_id):
                self.feed(await self._rewound(turn_id))
            case effects.Remove(tell):
                self.feed(await self._removed(tell=tell))
            case _:
                assert_never(effect)

    def _perform_turn(
        self,
        effect: effects.Judge
        | effects.StoreAccepted
        | effects.StartTurn
        | effects.CancelTurn
        | effects.Steer
        | effects.StoreEnd
        | effects.Write
        | effects.UseMode
        | effects.UseModel
        | effects.UseEffort
        | effects.UseContext,
    ) -> None:
        match effect:
            case effects.Judge():
                self._spawn(self._judge(effect))
            case effects.StoreAccepted():
                self._store_accepted(effect)
            case effects.StartTurn():
                self._start(effect)
            case effects.CancelTurn():
                self._cancelled = True
                self._engine.cancel()
                self._cards.feed(cards.Cancelled())
            case effects.Steer():
                self._steer(effect)
            case effects.StoreEnd(turn_id, answer):
                self._spawn(self._store_end(turn_id, answer))
            case effects.Write(record):
                self._write(record)
            case effects.UseMode(mode):
                self._engine.set_mode(mode)
            case effects.UseModel(model):
                self._engine.set_model(model)
            case effects.UseEffort(effort):
                self._engine.set_effort(effort)
            case effects.UseContext(context):
                self._engine.set_context(context)
            case _:
                assert_never(effect)

    async def _judge(self, asked: effects.Judge) -> None:
        refused: RequestRefused | None = None
        stored: list[Attachment] = []
        try:
            if asked.bound:
                await self._judged()
            if asked.uploads:
                stored = await self._stored(asked.uploads)
        except RequestRefused as why:
            refused = why
        self.feed(inputs.Judged(asked.turn_id, refused, stored))

    async def _stored(self, uploads: list[Upload]) -> list[Attachment]:
        """Have the files that came with a prompt on the disk, all or none. Raises RequestRefused."""
        try:
            async with asyncio.timeout(STORE_S):
                return await run_apart(lambda: opening.store_uploads(self._paths, self.id, uploads))
        except OSError as error:  # TimeoutError is one
            sentence = f"the files of the prompt could not be stored ({_says(error)}); free some space, then send it again"
            raise RequestRefused(INTERNAL_ERROR, sentence, {"reason": STORE}) from None

    async def _judged(self) -> None:
        """Judge the directory against the limits as they are now. Raises RequestRefused."""
        settings, root, shared = self.settings, self._root, self._session.shared
        try:
            async with asyncio.timeout(JUDGE_S):
                await run_apart(lambda: limits.judge_opened(root, settings, shared=shared))
        except TimeoutError:
            raise RequestRefused(INTERNAL_ERROR, _HANGS, {"reason": "folder"}) from None

    async def _judge_share(self) -> None:
        self.feed(inputs.ShareJudged(await self._is_open()))

    async def _judge_left(self) -> None:
        self.feed(inputs.LeftJudged(await self._is_open()))

    async def _is_open(self) -> bool:
        """Whether the limits, as they are now, let the instance use the session's directory."""
        try:
            await self._judged()
        except RequestRefused:
            return False
        return True

    def take(self, asked: inputs.ModeAsked | inputs.TitleAsked) -> bool:
        """Take what is asked of a session that the client has, at once: the prompt behind it is to run in it.

        False where only a look at the disk can tell whether the limits allow it: it is to be admitted.
        """
        local = self._session.is_local(asked.waiter)
        if not local and not limits.is_plainly_open(self._root, self.settings):
            return False
        self.feed(asked)
        return True

    async def admit(self, asked: Judgeable) -> None:
        """Take what a client asks of the session, judged by the limits where they bind it."""
        try:
            if not self._session.is_local(asked.waiter):
                await self._judged()
                self.feed(inputs.Admitted())
        except RequestRefused as refused:
            self.say(replies.refusal(self.id, asked.waiter, refused))
        else:
            self.feed(asked)

    async def delete(self, asked: inputs.DeleteAsked) -> None:
        """Delete the session, where the instance may that was never given it."""
        settings, root = self.settings, self._root
        try:
            async with asyncio.timeout(JUDGE_S):
                await run_apart(lambda: limits.judge_deleted(root, settings))
        except TimeoutError:
            hangs = RequestRefused(INTERNAL_ERROR, _HANGS, {"reason": limits.REASON_FOLDER})
            self.say(replies.refusal(self.id, asked.waiter, hangs))
        except RequestRefused as refused:
            self.say(replies.refusal(self.id, asked.waiter, refused))
        else:
            self.feed(asked)

    def has(self, waiter: Waiter) -> bool:
        """Whether who asks has the session already: nothing is opened for it."""
        return self.given or self._session.is_local(waiter)

    def _store_accepted(self, turn: effects.StoreAccepted) -> None:
        turn_id = turn.turn_id
        try:
            self._journal.append(
                TurnAccepted(
                    turn_id=turn_id,
                    text=turn.text,
                    attachments=turn.attachments,
                    local=turn.local,
                )
            )
        except OSError as error:
            self.feed(inputs.AcceptFailed(turn_id, _says(error), written=False))
        else:
            reached("worker.turn_accepted", session_id=self.id, turn_id=turn_id)
            self._spawn(self._sync_accepted(turn_id))

    async def _sync_accepted(self, turn_id: str) -> None:
        try:
            await self._journal.sync()
        except OSError as error:
            self.feed(inputs.AcceptFailed(turn_id, _says(error), written=True))
        else:
            reached("worker.turn_synced", session_id=self.id, turn_id=turn_id)
            self.feed(inputs.Accepted(turn_id))

    def _start(self, turn: effects.StartTurn) -> None:
        self._cancelled = False
        try:
            self._journal.append(TurnStarted(turn_id=turn.turn_id))
        except OSError as error:
            self.feed(inputs.TurnFinished(turn.turn_id, _not_stored(error)))
            return
        self._used.said(turn.text)
        self._spawn(
            self._run_turn(
                TurnInput(
                    turn_id=turn.turn_id,
                    text=turn.text,
                    attachments=turn.attachments,
                    local=turn.local,
                )
            )
        )

    async def _run_turn(self, turn: TurnInput) -> None:
        answer = CANCELLED
        try:
            # a start that a power cut takes back would run the turn a second time
            await self._journal.sync()
            if not self._cancelled:
                reached("worker.turn_started", session_id=self.id, turn_id=turn.turn_id)
                outcome = await self._engine.run_turn(turn)
                answer = Answer(outcome.stop_reason, outcome.error, outcome.unsent, outcome.command)
        except OSError as error:  # the journal's: the engine records what it does
            answer = _not_stored(error)
        self.feed(inputs.TurnFinished(turn.turn_id, answer))

    async def _compact(self) -> None:
        try:
            made = await self._engine.compact()
        except OSError as error:
            made = TurnError(INTERNAL_ERROR, f"the summary could not be stored ({_says(error)})")
        if isinstance(made, TurnError):
            self.feed(inputs.Compacted(error=made))
        else:
            self.feed(inputs.Compacted(made))

    async def _chosen(self, model: str | None, effort: str | None) -> inputs.Configured:
        about, account = self._session.about, self.settings.account
        if account is None:
            return inputs.Configured(error=TurnError(INVALID_PARAMS, requests.NO_LOGIN))
        try:
            found = await self._choose(
                self._lists, account, model or about.model, effort or about.effort
            )
        except RequestRefused as refused:
            error = TurnError(refused.code, refused.message, refused.data)
            return inputs.Configured(error=error)
        return inputs.Configured(*found)

    async def _rewound(self, turn_id: str) -> inputs.Rewound:
        try:
            records = await self._all_records()
            turns = rewinding.reverted_by(records, turn_id)
            if turns is None:
                return inputs.Rewound(error=TurnError(INVALID_PARAMS, _NO_TURN))
            if turns:
                results = sum(isinstance(one, ToolResult) for one in records)
                record = Rewound(turns=turns, results=results)
                self._journal.append(record)
                self._engine.rewind([*records, record])
                await self._journal.sync()
        except (OSError, NoSession) as error:
            text = f"the turns could not be taken back ({_says(error)}); see to the disk, then try again"
            return inputs.Rewound(error=TurnError(INTERNAL_ERROR, text, {"reason": STORE}))
        return inputs.Rewound(len(turns))

    async def _all_records(self) -> list[AnyRecord]:
        """Everything the journal holds at the moment this returns. Raises NoSession, OSError, TimeoutError."""
        while True:
            loaded = await run_apart(lambda: read(self._paths, self.id))
            # a mode or a title may have been set while it was read
            if loaded.whole_bytes == self._journal.whole_bytes:
                return loaded.records

    async def _removed(self, *, tell: bool) -> inputs.Removed:
        reached("worker.deleting", session_id=self.id)
        try:
            await run_apart(lambda: deleting.remove(self._paths, self.id, tell=tell))
        except OSError as error:
            return inputs.Removed(_says(error))
        return inputs.Removed()

    def _steer(self, effect: effects.Steer) -> None:
        waiting = self._engine.steer(effect.text, effect.message_id, local=effect.local)
        if isinstance(waiting, TurnError):
            self.say(replies.error(self.id, effect.waiter, waiting))
        else:
            self.say(replies.result(self.id, effect.waiter, {"queued": waiting}))

    async def _store_end(self, turn_id: str, answer: Answer) -> None:
        ended_at = time.time()
        problem: str | None = None
        written = False
        try:
            self._journal.append(as_record(turn_id, answer))
            written = True
            reached("worker.end_written", session_id=self.id, turn_id=turn_id)
            await self._journal.sync()
        except OSError as error:
            problem = _says(error)
        else:
            known = self._session.ledger.find(turn_id)
            at = known.at if known is not None else ended_at
            turn = Turn(turn_id, at, "done", answer, ended_at)
            await run_apart(lambda: opening.store_end(self._journal, self._turns_file, turn))
            reached("worker.turn_kept", session_id=self.id, turn_id=turn_id)
        self.feed(inputs.EndStored(turn_id, ended_at, problem, written))
        if self._commands is not None:
            await self._tell_commands(None)
        reached("worker.turn_ended", session_id=self.id, turn_id=turn_id)
        await self._keep_used()

    async def _keep_used(self) -> None:
        """Have the files that the turn used offered first when somebody looks for one here."""
        root, names, now = str(self._root), self._used.take(), time.time()
        if names:
            with suppress(OSError, TimeoutError):  # all that is lost is the order of a list
                await run_apart(lambda: recent_files.note(self._paths, root, names, now))

    def _write(self, record: AnyRecord) -> None:
        if isinstance(record, TurnEnded):
            self._journal.owe(record)
            self._pay()
            return
        try:
            self._journal.append(record)
        except OSError as error:
            self.feed(inputs.WriteFailed(_says(error)))

    def _pay(self) -> None:
        """Have the ends written that there was no room for, as soon as there is."""
        if not self._journal.pay():
            self._timers.set(OWED, self.now + OWED_S, self._pay)

    # ── its state ───────────────────────────────────────────────────────────────────────────────

    def _say_state(self, state: SessionState, *, in_turn: bool = False) -> None:
        self._measure.due(self.now, self._spawn)
        whole = msgspec.structs.replace(
            state, pss_bytes=self._measure.pss_bytes, fds=self._measure.fds
        )
        payload = msgspec.json.encode(whole)
        frame = Envelope(kind=kinds.STATE, channel=self.id, payload=payload)
        if in_turn:
            self.say(frame)
        else:
            self._wire.control(frame)

    def _measured(self) -> None:
        self._say_state(self._session.state)


def _says(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else ""
    return (said or str(error) or "the disk does not answer").lower()


def _not_stored(error: OSError) -> Answer:
    return failed(
        f"the turn could not be stored ({_says(error)}); free some space, then prompt again",
        {"reason": STORE},
    )
