"""A worker in this process, its hub played by the test over a real socket."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.device.paths import Paths
from lembasd.engine.api import TurnInput, TurnOutcome
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Account, Remote, SessionState, Settings
from lembasd.protocol.spawn import EXIT_LOCKED, Assignment
from lembasd.store.journal import Journal, read
from lembasd.store.records import TurnAccepted, TurnEnded, TurnStarted
from lembasd.worker.runner import Worker
from tests.support import scripted_engine
from tests.support.fake_hub import FakeHub, event_type
from tests.support.scripted_engine import Models, ScriptedEngine, Workbench

SESSION = "ses_" + "0" * 26
ACCOUNT = Account(base_url="http://127.0.0.1:1", token="secret", default_model="served")
LOCAL, LINK = 7, 8


class Scene:
    """One worker's surroundings."""

    def __init__(self, home: Path) -> None:
        self.paths = Paths(config=home / "config", state=home / "state", run=home / "run")
        self.paths.make()
        self.project = (home / "project").resolve()
        self.project.mkdir(exist_ok=True)
        self.settings = Settings(
            remote=Remote(enabled=True, roots=[str(self.project)], require_trust=False),
            account=ACCOUNT,
        )
        self.bench = Workbench()
        self.models = Models()

    def hub(self, **fields: Any) -> FakeHub:
        return FakeHub(self.paths.socket, self.settings, **fields)

    @asynccontextmanager
    async def worker(self, *, new: bool = True) -> AsyncIterator["asyncio.Task[int]"]:
        assignment = Assignment(spawn=1, role="worker", channel=SESSION, new=new)
        worker = Worker(assignment, self.paths, self.bench, self.models)
        task = asyncio.create_task(worker.run())
        try:
            yield task
        finally:
            if not task.done():
                worker.stop("the test is over")
            await task

    async def opened(self, hub: FakeHub, client: int = LOCAL) -> Any:
        """Attach a client and make the session for it."""
        await hub.until(lambda: hub.peer)
        hub.attach(client, protocol=3, local=client == LOCAL, opened=True)
        return await hub.ask(client, "session/new", {"cwd": str(self.project)})


@pytest.fixture
def scene(short_tmp: Path) -> Scene:
    return Scene(short_tmp)


def prompt(text: str, turn_id: str | None = None) -> dict[str, Any]:
    params: dict[str, Any] = {"sessionId": SESSION, "prompt": [{"type": "text", "text": text}]}
    if turn_id is not None:
        params["_meta"] = {"lembas": {"turnId": turn_id}}
    return params


@pytest.mark.spec(
    "session/new: the result's model, mode, effort",
    "session/new: the result's instance",
    "result: turnId",
    "result: stopReason end_turn",
)
async def test_a_session_is_made_and_a_prompt_is_answered_after_its_end_is_stored(
    scene: Scene,
) -> None:
    async with scene.hub() as hub, scene.worker():
        made = await scene.opened(hub)
        assert made["sessionId"] == SESSION
        assert made["_meta"]["lembas"] == {
            "model": "served",
            "mode": "manual",
            "effort": "default",
            "instance": True,
        }
        number = hub.request(LOCAL, "session/prompt", prompt("hello", "t1"))
        assert await hub.answer(number) == {
            "stopReason": "end_turn",
            "_meta": {"lembas": {"turnId": "t1"}},
        }
        recorded = read(scene.paths, SESSION).records
        assert [type(one).__name__ for one in recorded] == [
            "Created",
            "Opened",
            "TurnAccepted",
            "TitleSet",
            "TurnStarted",
            "Assistant",
            "TurnEnded",
        ]
        assert (scene.paths.turns / f"{SESSION}.json").exists()
        assert [one["type"] for one in hub.events()] == [
            "title",
            "prompt",
            "task",
            "text",
            "done",
            "task",
        ]
        numbered = [frame.seq for frame in hub.frames if frame.seq]
        assert numbered == list(range(1, len(numbered) + 1))


async def wish(engine: ScriptedEngine, turn: TurnInput) -> TurnOutcome:
    """Narrow the mode, then set everything else."""
    engine.host.wish("mode", "plan")
    for key in ("effort", "title", "verbosity"):
        engine.host.wish(key, "low")
    return scripted_engine.ENDED


async def test_what_the_model_sets_holds_when_the_session_is_opened_again(scene: Scene) -> None:
    scene.bench.script = wish
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        await hub.answer(hub.request(LOCAL, "session/prompt", prompt("hello", "t1")))
        settings = [one for one in hub.events() if one["type"] == "setting"]
        assert [(one["key"], one["value"]) for one in settings] == [
            ("mode", "plan"),
            ("effort", "low"),
            ("title", "low"),
            ("verbosity", "low"),
        ]
        assert scene.bench.engine.modes[-1] == "plan"
        assert scene.bench.engine.efforts == ["low"]
    async with scene.hub() as hub, scene.worker(new=False):
        await hub.until(lambda: hub.hellos)
        session = hub.hellos[0].session
        assert session is not None
        assert (session.mode, session.title) == ("plan", "low")
        await hub.until(lambda: hub.peer)
        hub.attach(LOCAL, protocol=3, local=True)
        frame = await hub.until(
            lambda: next((one for one in hub.frames if event_type(one) == "session"), None)
        )
        opened = msgspec.json.decode(frame.payload)["params"]["event"]
        assert (opened["mode"], opened["effort"]) == ("plan", "low")
        # the person's own mode is still the widest
        assert scene.bench.engine.host.widest_mode == "manual"


@pytest.mark.spec(
    "turn ids: a known id never runs again", "turn ids: a known id gets its turn's answer"
)
async def test_the_same_turn_id_runs_once_and_is_answered_twice(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        scene.bench.engine.then(scripted_engine.wait)
        first = hub.request(LOCAL, "session/prompt", prompt("go", "t1"))
        await hub.event("task")
        joined = hub.request(LOCAL, "session/prompt", prompt("go", "t1"))
        await hub.ask(LOCAL, "_lembas/session/status", {"sessionId": SESSION})
        scene.bench.engine.release.set()
        expected = {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t1"}}}
        assert await hub.answer(first) == expected
        assert await hub.answer(joined) == expected
        assert await hub.ask(LOCAL, "session/prompt", prompt("go", "t1")) == expected
        assert [turn.turn_id for turn in scene.bench.engine.turns] == ["t1"]


@pytest.mark.spec("turn ids: one is made where none came")
async def test_a_prompt_that_names_no_turn_is_given_an_id(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        answer = await hub.answer(hub.request(LOCAL, "session/prompt", prompt("hello")))
        told = [one["turnId"] for one in hub.events() if "turnId" in one]
        assert told
        assert set(told) == {answer["_meta"]["lembas"]["turnId"]}


@pytest.mark.spec("session/prompt: waits its turn")
async def test_a_prompt_that_comes_while_a_turn_runs_waits(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        scene.bench.engine.then(scripted_engine.wait)
        first = hub.request(LOCAL, "session/prompt", prompt("one", "t1"))
        second = hub.request(LOCAL, "session/prompt", prompt("two", "t2"))
        await hub.event("task")
        status = await hub.ask(LOCAL, "_lembas/session/status", {"sessionId": SESSION})
        assert (status["turnId"], status["queued"], status["held"]) == ("t1", ["t2"], "terminal")
        scene.bench.engine.release.set()
        await hub.answer(first)
        await hub.answer(second)
        assert [turn.text for turn in scene.bench.engine.turns] == ["one", "two"]


@pytest.mark.spec("session/cancel", "result: stopReason cancelled")
async def test_a_cancelled_turn_is_answered_cancelled(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        scene.bench.engine.then(scripted_engine.wait)
        number = hub.request(LOCAL, "session/prompt", prompt("go", "t1"))
        await hub.event("task")
        hub.say(LOCAL, jsonrpc.notification("session/cancel", {"sessionId": SESSION}))
        assert (await hub.answer(number))["stopReason"] == "cancelled"


async def test_a_turn_that_was_cut_off_is_never_run_again_and_its_error_is_repeated(
    scene: Scene,
) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
    journal = Journal.open(scene.paths, SESSION)
    journal.append(TurnAccepted(turn_id="t1", text="went wrong"))
    journal.append(TurnStarted(turn_id="t1"))
    journal.append(TurnAccepted(turn_id="t2", text="waits"))
    journal.close()
    async with scene.hub() as hub, scene.worker(new=False):
        hello = await hub.until(lambda: hub.hellos and hub.hellos[0])
        assert hello.session.epoch == 2
        hub.attach(LOCAL, protocol=3, local=True)
        error = await hub.ask(LOCAL, "session/prompt", prompt("went wrong", "t1"))
        assert (error["code"], error["data"]) == (-32603, {"reason": "worker_ended"})
        waited = await hub.ask(LOCAL, "session/prompt", prompt("waits", "t2"))
        assert waited["stopReason"] == "end_turn"
        assert [turn.turn_id for turn in scene.bench.engine.turns] == ["t2"]
        history = await hub.ask(LOCAL, "_lembas/session/history", {"sessionId": SESSION})
        assert [turn["text"] for turn in history["turns"]] == [
            "went wrong",
            "waits",
            "you said waits",
        ]


async def test_stop_cancels_what_runs_and_what_waits_then_ends(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker() as task:
        await scene.opened(hub)
        scene.bench.engine.then(scripted_engine.wait)
        first = hub.request(LOCAL, "session/prompt", prompt("one", "t1"))
        second = hub.request(LOCAL, "session/prompt", prompt("two", "t2"))
        await hub.event("task")
        await hub.ask(LOCAL, "_lembas/session/status", {"sessionId": SESSION})
        hub.stop()
        assert (await hub.answer(first))["stopReason"] == "cancelled"
        assert (await hub.answer(second))["stopReason"] == "cancelled"
        assert await task == 0
        assert scene.bench.engine.closed
    ends = [one for one in read(scene.paths, SESSION).records if isinstance(one, TurnEnded)]
    assert sorted((one.turn_id, one.stop_reason) for one in ends) == [
        ("t1", "cancelled"),
        ("t2", "cancelled"),
    ]


async def test_a_card_is_asked_of_everybody_and_decided_by_the_first_answer(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        hub.attach(LINK, protocol=3)
        scene.bench.engine.then(scripted_engine.ask)
        number = hub.request(LOCAL, "session/prompt", prompt("go", "t1"))
        await hub.kind(kinds.CARD)
        mine = await hub.frame(lambda one: one.card == "call_1" and one.client == LOCAL)
        other = await hub.frame(lambda one: one.card == "call_1" and one.client == LINK)
        selected = {"outcome": {"outcome": "selected", "optionId": "once"}}
        hub.say(LINK, jsonrpc.result(jsonrpc.peek(other.payload).id, selected))
        settled = await hub.kind(kinds.SETTLED)
        hub.say(
            LOCAL,
            jsonrpc.result(jsonrpc.peek(mine.payload).id, {"outcome": {"outcome": "cancelled"}}),
        )
        assert (settled.card, settled.client) == ("call_1", LINK)
        await hub.answer(number)
        assert [one.outcome for one in scene.bench.engine.decisions] == ["once"]


async def test_a_turn_goes_on_without_a_hub_and_the_next_one_is_told_of_it(scene: Scene) -> None:
    async with scene.worker():
        async with scene.hub() as hub:
            await scene.opened(hub, LINK)
            scene.bench.engine.then(scripted_engine.wait)
            hub.request(LINK, "session/prompt", prompt("go", "t1"))
            await hub.event("task")
        async with scene.hub() as hub:
            hello = await hub.until(lambda: hub.hellos and hub.hellos[0])
            assert (hello.session.turn_id, hello.session.given) == ("t1", True)
            hub.attach(LINK + 1, protocol=3)
            scene.bench.engine.release.set()
            again = await hub.ask(LINK + 1, "session/prompt", prompt("go", "t1"))
            assert again["stopReason"] == "end_turn"


async def test_a_refused_session_ends_its_worker_and_leaves_no_store(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker() as task:
        await hub.until(lambda: hub.peer)
        hub.attach(LINK, protocol=3)
        error = await hub.ask(LINK, "session/new", {"cwd": "/"})
        assert (error["code"], error["data"]) == (-32602, {"reason": "folder"})
        assert await task == 0
    assert list(scene.paths.sessions.iterdir()) == []


async def test_a_session_that_another_process_holds_is_not_opened(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        async with scene.worker(new=False) as second:
            assert await second == EXIT_LOCKED


async def test_an_idle_worker_asks_to_leave_and_ends_when_it_may(scene: Scene) -> None:
    scene.settings = msgspec.structs.replace(scene.settings, worker_idle_s=0.01)
    async with scene.hub() as hub, scene.worker() as task:
        await scene.opened(hub, LINK)
        await hub.kind(kinds.LEAVING)
        hub.control(kinds.LEAVE)
        assert await task == 0


async def test_the_stopping_marker_ends_a_worker_that_looks_for_its_hub(scene: Scene) -> None:
    async with scene.worker() as task:
        async with scene.hub() as hub:
            await scene.opened(hub)
            scene.bench.engine.then(scripted_engine.wait)
            hub.request(LOCAL, "session/prompt", prompt("go", "t1"))
            await hub.event("task")
            scene.paths.stopping.touch()
        assert await task == 0
    ends = [one for one in read(scene.paths, SESSION).records if isinstance(one, TurnEnded)]
    assert [(one.turn_id, one.stop_reason) for one in ends] == [("t1", "cancelled")]


async def test_states_say_what_runs_and_what_the_process_uses(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        state: SessionState = msgspec.json.decode(
            (
                await hub.frame(
                    lambda one: one.kind == kinds.STATE and b'"pss_bytes"' in one.payload
                )
            ).payload,
            type=SessionState,
        )
        assert state.pss_bytes > 0
        assert state.fds > 0
        assert (state.root, state.model) == (str(scene.project), "served")


async def test_a_client_that_comes_back_gets_what_it_missed(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        await hub.ask(LOCAL, "session/prompt", prompt("hello", "t1"))
        seen = [frame for frame in hub.frames if frame.seq]
        hub.frames.clear()
        hub.attach(LINK, protocol=3, since="1:2")
        last = seen[-1].seq
        await hub.until(lambda: any(one.seq == last and one.client == LINK for one in hub.frames))
        replayed = [one for one in hub.frames if one.client == LINK and one.seq]
        assert [(one.seq, one.payload) for one in replayed] == [
            (one.seq, one.payload) for one in seen if one.seq > 2
        ]
        hub.attach(LINK, protocol=3, since="1:999")
        gap = await hub.frame(lambda one: b"_hub/gap" in one.payload)
        assert gap.client == LINK


async def test_what_no_method_is_and_what_cannot_be_read_is_refused(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        assert (await hub.ask(LOCAL, "_lembas/jobs", {"sessionId": SESSION}))["code"] == -32601
        empty = await hub.ask(LOCAL, "session/prompt", prompt("  "))
        assert empty == {"code": -32602, "message": "the prompt is empty; write something"}
        mode = {"sessionId": SESSION, "modeId": "wild"}
        assert (await hub.ask(LOCAL, "session/set_mode", mode))["code"] == -32602


@pytest.mark.spec("_lembas/steer")
async def test_a_message_for_the_running_turn_is_counted_and_given_to_its_engine(
    scene: Scene,
) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        scene.bench.engine.then(scripted_engine.wait)
        number = hub.request(LOCAL, "session/prompt", prompt("go", "t1"))
        await hub.event("task")
        steer = {"sessionId": SESSION, "text": "in French", "messageId": "m"}
        assert await hub.ask(LOCAL, "_lembas/steer", steer) == {"queued": 1}
        assert scene.bench.engine.steered == [("in French", "m")]
        hub.control(kinds.SETTINGS, Settings(remote=Remote(enabled=False), account=ACCOUNT))
        hub.attach(LINK, protocol=3, local=False)
        refused = await hub.ask(LINK, "_lembas/steer", steer)
        assert (refused["code"], refused["data"]) == (-32602, {"reason": "remote_off"})
        scene.bench.engine.release.set()
        await hub.answer(number)
        assert (await hub.ask(LOCAL, "_lembas/steer", steer))["code"] == -32602


@pytest.mark.spec("limits: judged at each request")
async def test_a_link_client_is_held_to_the_limits_at_each_prompt(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub, LINK)
        auto = {"sessionId": SESSION, "modeId": "auto"}
        assert await hub.ask(LINK, "session/set_mode", auto) == {}
        assert scene.bench.engine.modes == ["manual", "edit"]
        hub.control(kinds.SETTINGS, Settings(remote=Remote(enabled=False), account=ACCOUNT))
        session = {"sessionId": SESSION}
        for method, params in (
            ("session/prompt", prompt("go", "t1")),
            ("session/set_mode", {**session, "modeId": "plan"}),
            ("_lembas/session/compact", session),
        ):
            error = await hub.ask(LINK, method, params)
            assert (error["code"], error["data"]) == (-32602, {"reason": "remote_off"})
        elsewhere = Remote(enabled=True, roots=["/elsewhere"], require_trust=False)
        hub.control(kinds.SETTINGS, Settings(remote=elsewhere, account=ACCOUNT))
        for method, params in (
            ("session/prompt", prompt("go", "t2")),
            ("_lembas/session/compact", session),
        ):
            error = await hub.ask(LINK, method, params)
            assert (error["code"], error["data"]) == (-32602, {"reason": "folder"})
        assert scene.bench.engine.turns == []
        assert scene.bench.engine.modes == ["manual", "edit"]
        hub.attach(LOCAL, protocol=3, local=True)
        assert await hub.ask(LOCAL, "session/set_mode", {**session, "modeId": "plan"}) == {}


def ends(scene: Scene) -> list[TurnEnded]:
    return [one for one in read(scene.paths, SESSION).records if isinstance(one, TurnEnded)]


async def test_a_turn_told_to_have_failed_for_a_full_disk_never_runs_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def until_it_starts(handle: int, data: bytes) -> int:
        if b'"type":"accepted"' not in data:
            raise OSError(28, "No space left on device")
        return write(handle, data)

    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        with monkeypatch.context() as full:
            full.setattr("lembasd.store.journal.os.write", until_it_starts)
            told = await hub.ask(LOCAL, "session/prompt", prompt("go", "t1"))
        assert (told["code"], told["data"]) == (-32603, {"reason": "store"})
        # written though nothing else is, for a worker may be killed
        async with asyncio.timeout(10):
            while not [one for one in ends(scene) if one.turn_id == "t1"]:  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.05)
    async with scene.hub() as hub, scene.worker(new=False):
        await hub.until(lambda: hub.peer)
        hub.attach(LOCAL, protocol=3, local=True)
        assert await hub.ask(LOCAL, "session/prompt", prompt("go", "t1")) == told
    assert scene.bench.engine.turns == []


async def test_a_full_disk_at_acceptance_is_said_and_the_turn_is_not_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        with monkeypatch.context() as full:

            def no_space(*_: object) -> int:
                raise OSError(28, "No space left on device")

            full.setattr("lembasd.store.journal.os.write", no_space)
            error = await hub.ask(LOCAL, "session/prompt", prompt("go", "t1"))
        assert (error["code"], error["data"]) == (-32603, {"reason": "store"})
        assert scene.bench.engine.turns == []
        again = await hub.ask(LOCAL, "session/prompt", prompt("go", "t1"))
        assert again["stopReason"] == "end_turn"
