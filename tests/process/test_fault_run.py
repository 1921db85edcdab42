"""Prompts on many sessions while the link is dropped, the hub is killed and workers are killed, each at named milestones.

Short here; `LEMBASD_FAULT_RUN=whole` (or `make faults`) asks for 300 prompts on 20 sessions.
"""

import asyncio
import os
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from lembasd.store.journal import read
from lembasd.store.records import TurnEnded, TurnStarted
from tests.support.bare_client import ANSWER_S, BareClient, LinkLost, Refused
from tests.support.daemon import Install, gone
from tests.support.fake_instance import TOKEN, FakeInstance
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import prompt

WHOLE: Final = os.environ.get("LEMBASD_FAULT_RUN") == "whole"
SESSIONS, PROMPTS, FAULTS = (20, 300, 90) if WHOLE else (4, 30, 9)
#: prompts that are let go before a fault, of one session, so that some wait in it
AT_ONCE: Final = 3
#: how often one prompt is sent, over links and for errors that ask for it; more is a prompt that never ends
MOST_TRIES: Final = 60
MILESTONES: Final = [
    "worker.turn_accepted",
    "worker.turn_synced",
    "worker.turn_started",
    "worker.first_token",
    "worker.tool_started",
    "worker.tool_ended",
    "worker.end_written",
    "worker.turn_kept",
    "worker.turn_ended",
]
KINDS: Final = ("link", "hub", "worker")

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800 if WHOLE else 300)]


@pytest.fixture
async def instance(model: ScriptedModel) -> AsyncIterator[FakeInstance]:
    async with FakeInstance() as one:
        one.model_port = model.port
        one.models = [{"id": "scripted"}]
        yield one


def play(body: dict[str, Any]) -> Reply:
    """Writes the turn's id outside in its first step, and ends in the second."""
    last = body["messages"][-1]
    if last["role"] != "user":
        return Reply(text="done")
    turn = str(last["content"]).split()[-1]
    return Reply(text="I write.", calls=[("bash", {"command": f"echo {turn} >> outside"})])


class Run:
    """The client: it asks each prompt again on the next link, and when it is told to, until it has its answer."""

    def __init__(self, install: Install, instance: FakeInstance) -> None:
        self.install = install
        self._instance = instance
        self.link: BareClient | None = None
        self._linked = asyncio.Event()
        #: every answer that came, by turn
        self.answers: defaultdict[str, list[Any]] = defaultdict(list)
        self.tries: Counter[str] = Counter()
        self.faults: Counter[tuple[str, str]] = Counter()
        #: prompts pass it in their order
        self.gate = asyncio.Semaphore(0)
        self._freeze = Path(install.environment["LEMBASD_TEST_FREEZE"])

    async def keep_linked(self) -> None:
        while True:
            try:
                self.link = await BareClient.of(self._instance)
            except (LinkLost, TimeoutError):
                continue
            self._linked.set()
            await self.link.closed()

    async def up(self) -> BareClient:
        while self.link is None or self.link.device.closed.is_set():
            self._linked.clear()
            await self._linked.wait()
        return self.link

    async def new_session(self) -> str:
        params = {"cwd": str(self.install.project), "mcpServers": [], "_meta": {"mode": "auto"}}
        made = await (await self.up()).value("session/new", params)
        return str(made["sessionId"])

    async def turn(self, session: str, turn: str) -> None:
        """To its answer, or to its error."""
        while self.tries[turn] < MOST_TRIES:
            self.tries[turn] += 1
            try:
                answer: Any = await (await self.up()).value(
                    "session/prompt", prompt(session, turn, turn)
                )
            except LinkLost:
                continue
            except Refused as refused:
                if (refused.data or {}).get("retryable"):
                    continue
                answer = [refused.code, refused.message, refused.data]
            self.answers[turn].append(answer)
            return
        raise AssertionError(f"{turn} has no answer after {MOST_TRIES} tries")

    async def released(self, session: str, turn: str) -> None:
        """The turn, once it is let go."""
        await self.gate.acquire()
        await self.turn(session, turn)

    # ── faults ──────────────────────────────────────────────────────────────────────────────────

    async def harm(self, kind: str, milestone: str) -> None:
        """Let some prompts go, wait for the milestone, then do what `kind` says."""
        milestones = self.install.milestones
        milestones.seen.clear()
        if kind == "worker":
            self._freeze.with_suffix(".new").write_text(milestone)
            self._freeze.with_suffix(".new").rename(self._freeze)
        for _ in range(AT_ONCE):
            self.gate.release()
        reached = await milestones.wait(milestone)
        if kind == "link":
            (await self.up()).device.drop()
        elif kind == "hub":
            await self.install.kill_hub()
            await self.install.start_hub()
        else:
            pid = await self._stopped(milestone, reached["pid"])
            psutil.Process(pid).kill()
            await gone(pid)
        self.faults[kind, milestone] += 1

    async def _stopped(self, milestone: str, *pids: int) -> int:
        """The worker that has stopped at the milestone: whoever reached it first once the file was there."""
        reached = [*pids]
        async with asyncio.timeout(ANSWER_S):
            while True:
                while (one := self.install.milestones.take(milestone)) is not None:
                    reached.append(one["pid"])
                for pid in reached:
                    with suppress(psutil.NoSuchProcess):
                        if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                            return pid
                await asyncio.sleep(0.005)

    async def harm_all(self, faults: random.Random) -> None:
        """Every kind at every milestone, in a random order over and over; then the rest of the prompts goes undisturbed."""
        pairs = [(kind, milestone) for kind in KINDS for milestone in MILESTONES]
        faults.shuffle(pairs)
        for number in range(FAULTS):
            await self.harm(*pairs[number % len(pairs)])
        for _ in range(PROMPTS):
            self.gate.release()


@pytest.mark.spec(
    "turn ids: a known id never runs again",
    "turn ids: a known id gets its turn's answer",
    "turn ids: kept over a restart",
)
async def test_every_turn_runs_at_most_once_and_has_one_answer_whatever_dies(
    short_tmp: Path, model: ScriptedModel, instance: FakeInstance
) -> None:
    model.choose = play
    async with Install(short_tmp) as install:
        install.configure()
        install.log_in(instance.url, token=TOKEN)
        install.environment["LEMBASD_TEST_FREEZE"] = str(install.base / "freeze")
        await install.start_hub()
        run = Run(install, instance)
        keeping = asyncio.create_task(run.keep_linked())
        sessions = [await run.new_session() for _ in range(SESSIONS)]
        turns = {
            session: [f"turn-{n}" for n in range(at, PROMPTS, SESSIONS)]
            for at, session in enumerate(sessions)
        }
        order = random.Random(int(os.environ.get("LEMBASD_FAULT_SEED", "1")))
        groups = [
            [(session, turn) for turn in turns[session][at : at + AT_ONCE]]
            for session in sessions
            for at in range(0, len(turns[session]), AT_ONCE)
        ]
        order.shuffle(groups)
        async with asyncio.TaskGroup() as group:
            for session, turn in [one for group_ in groups for one in group_]:
                group.create_task(run.released(session, turn))
            group.create_task(run.harm_all(order))

        asked = len(model.requests)
        for session in sessions:
            for turn in turns[session]:
                await run.turn(session, turn)
        assert len(model.requests) == asked, "a known id ran again"

        started = Counter(
            str(body["messages"][-1]["content"]).split()[-1]
            for body in model.requests
            if body["messages"][-1]["role"] == "user"
        )
        outside = Counter((install.project / "outside").read_text().split())
        assert {turn: n for turn, n in started.items() if n > 1} == {}
        assert {turn: n for turn, n in outside.items() if n > 1} == {}
        wrong = {}
        for session in sessions:
            records = read(install.paths, session).records
            starts = Counter(one.turn_id for one in records if isinstance(one, TurnStarted))
            ends = {one.turn_id: told(one) for one in records if isinstance(one, TurnEnded)}
            assert sum(isinstance(one, TurnEnded) for one in records) == len(turns[session])
            assert set(starts.values()) <= {1}
            for turn in turns[session]:
                if any(answer != ends[turn] for answer in run.answers[turn]):
                    wrong[turn] = (run.answers[turn], ends[turn])
        print(f"{dict(run.faults)}; tries {run.tries.total()}; ran {outside.total()}")  # noqa: T201 - for -s
        assert wrong == {}
        assert run.faults.total() == FAULTS
        keeping.cancel()
        await install.stop()


def told(end: TurnEnded) -> Any:
    """What a client is told of a turn with this end."""
    if end.error is not None:
        return [end.error.code, end.error.message, end.error.data]
    return {"stopReason": end.stop_reason, "_meta": {"lembas": {"turnId": end.turn_id}}}
