"""The worker of one session: opens or makes its store, keeps its connection, takes what the hub sends."""

import asyncio
import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from lembasd import __version__
from lembasd.device import limits
from lembasd.device.logging import hide, logger
from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Account, Attached, Settings, Stop
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RequestRefused,
)
from lembasd.protocol.hello import Hello, SessionHello
from lembasd.protocol.jsonrpc import Message
from lembasd.protocol.spawn import (
    EXIT_LOCKED,
    EXIT_NEWER,
    EXIT_UNKNOWN,
    EXIT_UNREADABLE,
    Assignment,
)
from lembasd.store.apart import run_apart
from lembasd.store.journal import JournalDamaged, JournalNewer, NoSession, SessionLocked
from lembasd.worker import opening, replies
from lembasd.worker.asked import SessionRequests
from lembasd.worker.connection import Connection
from lembasd.worker.core import inputs, requests
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.host import KeptLists
from lembasd.worker.open_session import OpenSession
from lembasd.worker.opening import Store
from lembasd.worker.ports import EngineFactory, ModelChooser
from lembasd.worker.tasks import Tasks

#: a lock is free a millisecond after its holder ended; one that is held for so long is held by somebody who works
LOCK_WAIT_S: Final = 2.0
LOCK_STEP_S: Final = 0.05
#: a worker for a new session that is asked for none by then is wanted by nobody
UNBORN_S: Final = 30.0
#: a directory that does not answer by then is on a disk that hangs: session/new is refused
JUDGE_S: Final = 10.0

_settings: Final = msgspec.json.Decoder(Settings)
_attached: Final = msgspec.json.Decoder(Attached)
_stop: Final = msgspec.json.Decoder(Stop)


class Worker:
    """One process' session. `run` gives the exit code."""

    def __init__(
        self,
        assignment: Assignment,
        paths: Paths,
        make_engine: EngineFactory,
        choose: ModelChooser,
    ) -> None:
        self._choose = choose
        self._assignment = assignment
        self._paths = paths
        self._make_engine = make_engine
        self._id = assignment.channel
        self._connection = Connection(paths, self)
        self._session: OpenSession | None = None
        self._requests: SessionRequests | None = None
        self._settings: Settings | None = None
        #: clients that were attached before there was a session
        self._early: dict[int, Attached] = {}
        self._making = False
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._tasks = Tasks()
        self._log = logger().bind(session_id=self._id)

    async def run(self) -> int:
        """Work until the session is idle, stopped or nobody's. Raises what is a fault of ours."""
        store: Store | None = None
        if not self._assignment.new:
            try:
                store = await self._take_up()
            except SessionLocked as locked:
                self._log.warning("session_locked", error=str(locked))
                return EXIT_LOCKED
            except NoSession as error:
                self._log.info("session_not_there", error=str(error))
                return EXIT_UNKNOWN
            except JournalNewer as error:
                self._log.warning("session_is_newer", error=str(error))
                return EXIT_NEWER
            except (JournalDamaged, OSError) as error:
                self._log.error("session_not_opened", error=str(error))
                return EXIT_UNREADABLE
        try:
            code = await self._serve(store)
        finally:
            reached("worker.ended", session_id=self._id)
        self._log.info("worker_ended", exit_code=code)
        return code

    async def _serve(self, store: Store | None) -> int:
        unborn = asyncio.get_running_loop().call_later(UNBORN_S, self._still_unborn)
        try:
            async with self._tasks:
                if store is not None:
                    self._begin(store)
                self._tasks.spawn(self._connection.run())
                code = await self._exit
                await self._connection.finish(self._is_pending)
        finally:
            unborn.cancel()
            if self._session is not None:
                await self._session.close()
        return code

    def _is_pending(self) -> bool:
        return self._session is not None and self._session.pending

    async def _take_up(self) -> Store:
        give_up = asyncio.get_running_loop().time() + LOCK_WAIT_S
        ended_for = self._assignment.ended_for
        while True:
            try:
                return await run_apart(lambda: opening.take_up(self._paths, self._id, ended_for))
            except SessionLocked:
                if asyncio.get_running_loop().time() >= give_up:
                    raise
                await asyncio.sleep(LOCK_STEP_S)

    def _begin(self, store: Store) -> None:
        session = OpenSession(
            self._paths,
            store,
            self._settings or Settings(),
            self._connection,
            self._make_engine,
            self._choose,
            self._tasks.spawn,
            self._ended,
        )
        self._session = session
        self._requests = SessionRequests(self._paths, session, self._tasks.spawn)

    # ── its own end ─────────────────────────────────────────────────────────────────────────────

    def stop(self, reason: str) -> None:
        """Cancel what runs, then end."""
        if self._session is not None:
            self._session.feed(inputs.StopAsked(reason))
        else:
            self._ended(True)

    def _ended(self, clean: bool) -> None:
        if not self._exit.done():
            self._exit.set_result(EXIT_DONE if clean else EXIT_FAILED)

    def _still_unborn(self) -> None:
        if self._session is None and not self._making:
            self._log.info("session_never_asked_for")
            self._ended(True)

    # ── HubHandler ──────────────────────────────────────────────────────────────────────────────

    def hub_hello(self) -> Hello:
        account = (
            self._session.hello()
            if self._session is not None
            else SessionHello(session_id=self._id, epoch=1, stored=False)
        )
        return Hello(
            role="worker",
            build=__version__,
            pid=os.getpid(),
            spawn=self._assignment.spawn,
            session=account,
        )

    def hub_joined(self) -> None:
        reached("worker.connected", session_id=self._id)
        if self._session is not None:
            self._session.hub_joined(superseded=self._connection.superseded)

    def hub_unspeakable(self) -> None:
        self._log.warning("hub_unspeakable", error=self._connection.refused)
        if self._session is not None:
            self._session.feed(inputs.HubUnspeakable())
        elif not self._making:
            self._ended(True)  # whoever asked for the session has been told why there is none

    def hub_writable(self) -> None:
        if self._session is not None:
            self._session.hub_writable()

    def hub_lost(self, reason: str) -> None:
        self._log.info("hub_lost", error=reason)
        self._early.clear()
        if self._session is not None:
            self._session.hub_lost()
        elif not self._making:
            self._ended(True)  # who asked for the session is gone with its hub

    def stop_was_meant(self) -> None:
        self.stop("lembasd was stopped")

    def hub_message(self, message: Envelope) -> None:
        match message.kind:
            case kinds.RPC:
                self._rpc(message)
            case kinds.SETTINGS:
                self._new_settings(_settings.decode(message.payload))
            case kinds.ATTACHED:
                self._attach(_attached.decode(message.payload))
            case kinds.DETACHED:
                self._early.pop(message.client, None)
                if self._session is not None:
                    self._session.detached(message.client)
            case kinds.RESEND | kinds.YIELD | kinds.LEAVE:
                if self._session is not None:
                    _tell(self._session, message)
            case kinds.STOP:
                self.stop(_stop.decode(message.payload or b"{}").reason)
            case kinds.UNKNOWN | kinds.PONG:
                pass
            case _:
                self._connection.answer_unknown(message)

    def _new_settings(self, settings: Settings) -> None:
        self._settings = settings
        if settings.account is not None:
            hide(settings.account.token)
        if self._session is not None:
            self._session.new_settings(settings)

    def _attach(self, attached: Attached) -> None:
        if self._session is not None:
            self._session.attached(attached)
        else:
            self._early[attached.client] = replace(attached, known=False)

    # ── requests ────────────────────────────────────────────────────────────────────────────────

    def _rpc(self, frame: Envelope) -> None:
        try:
            message = jsonrpc.peek(frame.payload)
        except RequestRefused as refused:
            self._log.warning("hub_sent_no_message", error=str(refused))
            return
        waiter = Waiter(frame.client, frame.request, message.id, frame.local)
        if message.method == "session/new" and message.is_request:
            self._new(waiter, message)
        elif self._requests is not None:
            self._requests.take(waiter, message)
        elif message.is_request:
            unknown = RequestRefused(INVALID_PARAMS, "unknown session")
            self._connection.send(replies.refusal(self._id, waiter, unknown))

    def _new(self, waiter: Waiter, message: Message) -> None:
        if self._session is not None or self._making or not self._assignment.new:
            refused = RequestRefused(INVALID_REQUEST, "this session is made already")
            self._connection.send(replies.refusal(self._id, waiter, refused))
            return
        self._making = True
        self._tasks.spawn(self._make(waiter, message))

    async def _make(self, waiter: Waiter, message: Message) -> None:
        settings = self._settings or Settings()
        attached = self._early.get(waiter.client)
        local = attached is not None and attached.local
        try:
            asked = requests.read_new(message.params, settings, local=local)
            root = await self._judged(asked.cwd, settings, local=local)
            asked = await self._with_model(asked, settings.account)
            store = await run_apart(
                lambda: opening.make(self._paths, self._id, asked, root, given=not local)
            )
        except RequestRefused as refused:
            self._refuse_new(waiter, refused)
            return
        except OSError as error:
            sentence = f"the session could not be stored ({error.strerror}); free some space, then try again"
            self._refuse_new(waiter, RequestRefused(INTERNAL_ERROR, sentence, {"reason": "store"}))
            return
        self._begin(store)
        self._born(waiter, asked, settings, local=local)

    def _born(
        self, waiter: Waiter, asked: requests.NewSession, settings: Settings, *, local: bool
    ) -> None:
        session = self._session
        if session is None:
            return
        session.new_settings(self._settings or settings)
        ceiling = "auto" if local else settings.remote.max_mode
        result = requests.new_result(self._id, asked, ceiling)
        if self._connection.joined:
            session.say(replies.result(self._id, waiter, result))
            session.hub_joined(superseded=False)
        for attached in self._early.values():
            session.attached(attached)
        self._early.clear()
        self._log.info("session_made")

    async def _judged(self, cwd: str, settings: Settings, *, local: bool) -> Path:
        try:
            async with asyncio.timeout(JUDGE_S):
                return await run_apart(lambda: limits.judge_root(cwd, settings, local=local))
        except TimeoutError:
            raise RequestRefused(
                INVALID_PARAMS,
                f"{cwd} does not answer; see to its disk, or name another",
                {"reason": limits.REASON_FOLDER},
            ) from None

    async def _with_model(
        self, asked: requests.NewSession, account: Account | None
    ) -> requests.NewSession:
        """The model under the name it is served by. Raises RequestRefused."""
        if account is None:
            return asked
        model, effort = await self._choose(
            KeptLists(self._paths), account, asked.model, asked.effort
        )
        return replace(asked, model=model, effort=effort)

    def _refuse_new(self, waiter: Waiter, refused: RequestRefused) -> None:
        self._log.info("session_refused", error=refused.message)
        self._connection.send(replies.refusal(self._id, waiter, refused))
        self._ended(True)


def _tell(session: OpenSession, message: Envelope) -> None:
    """What the hub says to a session that is open."""
    match message.kind:
        case kinds.RESEND:
            session.resend(message.client, message.epoch, message.seq)
        case kinds.YIELD:
            session.feed(inputs.YieldAsked())
        case _:
            session.feed(inputs.LeaveGranted())
