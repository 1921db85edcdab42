"""A service at work for a chaos run: a hub under a service manager, sessions with turns under way, terminals."""

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import psutil
from msgspec import Struct

from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import RequestRefused
from tests.support.chaos.model import CountingModel
from tests.support.chaos.moments import REQUEST_SENT, Moment
from tests.support.chaos.person import AGAIN_S, Person
from tests.support.daemon import Client, Install
from tests.support.fake_instance import TOKEN, FakeInstance
from tests.support.service_manager import ServiceManager

#: sessions that are given a prompt at a time
AT_ONCE: Final = 3
#: how long a moment is waited for before more sessions are given a prompt, and how often that is done
REACHED_S: Final = 2.0
POKES: Final = 15
#: what a turn needs to its end that has nothing to wait for
MOMENT_S: Final = 0.5
#: how long the service may take to be whole again after anything
WHOLE_S: Final = 90.0
#: the link waits longer and longer before it dials; a person who has no patience logs in anew
PATIENCE_S: Final = 1.0


class Stopped(Struct):
    """A process that stands still at a moment. `session`: the one it is about, if any."""

    moment: Moment
    pid: int
    session: str


class Work:
    """`sessions` of them at work, every third one asking before each command."""

    def __init__(
        self,
        install: Install,
        manager: ServiceManager,
        instance: FakeInstance,
        model: CountingModel,
        order: random.Random,
    ) -> None:
        self.install = install
        self.manager = manager
        self.instance = instance
        self.model = model
        self.person = Person(instance)
        self.order = order
        self.asking: list[str] = []
        self.sessions: list[str] = []
        #: every turn of each session, in order
        self.turns: dict[str, list[str]] = {}
        self.hits: Counter[str] = Counter()
        #: the worker of each session, and the helpers of the hub that runs now, by kind
        self.workers: dict[str, int] = {}
        self.helpers: dict[str, tuple[int, int]] = {}
        #: turns that may be asked for more than once: their stream was cut
        self.excused: set[str] = set()
        self._number = 0
        self._asked: set[asyncio.Task[None]] = set()
        self._local: Client | None = None
        install.milestones.hear = self._reached

    # ── what is seen ────────────────────────────────────────────────────────────────────────────

    def _reached(self, one: dict[str, Any]) -> None:
        self.hits[one["name"]] += 1
        if one.get("session_id"):
            if one["name"].startswith("worker."):
                self.workers[one["session_id"]] = one["pid"]
        elif one["name"] in ("zygote.ready", "spare.ready"):
            self.helpers[one["kind"]] = one["pid"], one["parent"]

    def passed(self, moment: Moment) -> int:
        """How often any process came by it."""
        if moment is REQUEST_SENT:
            return self.model.asked
        return self.hits[moment.milestone]

    @property
    def hub(self) -> int:
        """The pid of the main process."""
        assert self.manager.main is not None
        return self.manager.main.pid

    async def local(self) -> Client:
        """A client on the hub's socket: another one where the hub is another."""
        async with asyncio.timeout(WHOLE_S):
            while self._local is None or self._local.hub.lost.is_set():
                client = Client()
                try:
                    await client.hub.connect(self.install.paths.socket)
                    await client.initialize()
                except (NoHub, OSError, RequestRefused, TimeoutError):
                    client.hub.close()  # half a client would be one more that the hub has
                    await asyncio.sleep(AGAIN_S)
                else:
                    self._local = client
        return self._local

    async def status(self) -> dict[str, Any]:
        async with asyncio.timeout(WHOLE_S):
            while True:
                with suppress(NoHub, TimeoutError):
                    return await (await self.local()).ask("_hub/status", {})

    # ── prompts ─────────────────────────────────────────────────────────────────────────────────

    async def begin(self, count: int) -> None:
        """Open the sessions, each with a turn under way."""
        keeping = asyncio.create_task(self.person.keep_linked())
        self._keeping = keeping
        for number in range(count):
            mode = "manual" if number % 3 == 0 else "auto"
            session = await self.person.new_session(str(self.install.project), mode)
            self.sessions.append(session)
            self.turns[session] = []
            if mode == "manual":
                self.asking.append(session)
        for session in self.sessions:
            self.ask(session)

    def ask(self, session: str, flavour: str = "plain") -> str:
        """Let the session's turn go on, and ask for the next; its id."""
        turns = self.turns[session]
        if turns:
            self.model.let_go(turns[-1])
        turn = f"turn-{self._number}"
        self._number += 1
        turns.append(turn)
        task = asyncio.create_task(self.person.turn(session, flavour, turn))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return turn

    def poke(self, moment: Moment) -> None:
        """Give some sessions what leads to the moment."""
        among = self.asking if moment.asks else self.sessions
        for session in self.order.sample(among, min(AT_ONCE, len(among))):
            if moment.flavour != "plain":
                # the one that waits is not what is wanted: it goes, and so does what is
                self.model.let_go(self.ask(session, moment.flavour))
            self.ask(session)

    # ── moments ─────────────────────────────────────────────────────────────────────────────────

    async def reach(self, moment: Moment) -> Stopped:
        """Have a process stand still at the moment."""
        await self.whole()
        if moment is REQUEST_SENT:
            return await self._asked_for(moment)
        self.install.milestones.seen.clear()
        self.install.freeze(moment.milestone)
        if moment.of_hub:
            os.kill(self.hub, signal.SIGKILL)
        for _ in range(POKES):
            if not moment.of_hub:
                self.poke(moment)
            with suppress(TimeoutError):
                async with asyncio.timeout(WHOLE_S if moment.of_hub else REACHED_S):
                    return await self._stopped(moment)
        raise AssertionError(f"nobody came to {moment.milestone}")

    async def _asked_for(self, moment: Moment) -> Stopped:
        arrived = self.model.next_request()
        for _ in range(POKES):
            self.poke(moment)
            await asyncio.wait([arrived], timeout=REACHED_S)
            if arrived.done():
                turn = arrived.result()
                session = next(one for one, turns in self.turns.items() if turn in turns)
                return Stopped(moment, self.workers[session], session)
        raise AssertionError("no request came")

    async def _stopped(self, moment: Moment) -> Stopped:
        seen: list[dict[str, Any]] = []
        while True:
            while (one := self.install.milestones.take(moment.milestone)) is not None:
                seen.append(one)
            for one in seen:
                with suppress(psutil.NoSuchProcess):
                    if psutil.Process(one["pid"]).status() == psutil.STATUS_STOPPED:
                        return Stopped(moment, one["pid"], one["session_id"])
            await asyncio.sleep(0.005)

    async def go_on(self, stopped: Stopped) -> None:
        """Let it go on to the end of its turn; where none comes of it, for a moment."""
        milestones = self.install.milestones
        milestones.seen.clear()
        self.resume(stopped)
        with suppress(AssertionError):
            await milestones.wait("worker.turn_ended", MOMENT_S, pid=stopped.pid)

    def resume(self, stopped: Stopped) -> None:
        if stopped.moment is REQUEST_SENT:
            self.model.answer()
        else:
            with suppress(ProcessLookupError):
                os.kill(stopped.pid, signal.SIGCONT)

    async def whole(self) -> None:
        """Wait until there is a hub that serves, with its helpers, and a link."""
        missing: object = "a hub"
        try:
            async with asyncio.timeout(WHOLE_S):
                status = await self.status()
                while missing:
                    ready = {one["kind"] for one in status["zygotes"] if one["ready"]}
                    there = status["hub"]["pid"] == self.hub and ready == {"worker", "pty"}
                    missing = "" if there else (self.hub, status["hub"], status["zygotes"])
                    await asyncio.sleep(AGAIN_S if missing else 0)
                    status = await self.status()
                while not self.person.is_linked:
                    assert not self._keeping.done(), self._keeping
                    missing = status["link"]
                    with suppress(TimeoutError):
                        async with asyncio.timeout(PATIENCE_S):
                            await self.person.up()
                            return
                    self.install.log_in(self.instance.url, token=TOKEN)
        except TimeoutError:
            raise AssertionError(f"not there again: {missing}") from None

    # ── the end ─────────────────────────────────────────────────────────────────────────────────

    async def finish(self) -> None:
        """Let everything go on to its end."""
        self.model.let_all_go()
        await self.whole()
        try:
            async with asyncio.timeout(WHOLE_S):
                while self._asked:
                    await asyncio.gather(*self._asked)
        except TimeoutError:
            workers = (await self.status())["workers"]
            waiting = {
                session: left
                for session, turns in self.turns.items()
                if (left := sorted(self.person.waiting & set(turns)))
            }
            about = [one for one in workers if one["session_id"] in waiting]
            raise AssertionError(f"no answers: {waiting}; {about}") from None

    async def recall(self) -> dict[str, str]:
        """Ask every session what it remembers: the turn that asked, by session."""
        asked = {session: self.ask(session, "recall") for session in self.sessions}
        await self.finish()
        return asked

    async def close(self) -> None:
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        if self._local is not None:
            self._local.hub.close()
