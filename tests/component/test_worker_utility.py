"""The utility worker in this process, its hub played by the test."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from lembasd.device.paths import Paths
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Remote, Settings
from lembasd.protocol.spawn import Assignment
from lembasd.store.deletes import Deletes
from lembasd.store.journal import Journal
from lembasd.store.pre_images import PreImages, pre_image
from lembasd.store.records import Created, Given, TitleSet, TurnAccepted, TurnEnded, TurnStarted
from lembasd.worker.core.answers import NOTHING_RUNS
from lembasd.worker.utility import Utility
from tests.support.fake_hub import TIMEOUT_S, FakeHub
from tests.support.milestones import Milestones

SESSION = "ses_" + "0" * 26
OTHER = "ses_" + "1" * 26
CLIENT = 3


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    found = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    found.make()
    return found


@asynccontextmanager
async def utility(paths: Paths, idle_s: float = 60.0) -> AsyncIterator["asyncio.Task[int]"]:
    worker = Utility(Assignment(spawn=1, role="utility"), paths, idle_s)
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        worker.stop("the test is over")
        await task


def store(paths: Paths) -> Journal:
    journal = Journal.create(paths, SESSION)
    journal.append(Created(session_id=SESSION, root="/project", mode="edit", model="m"))
    journal.append(TitleSet(title="Fix it"))
    for turn_id in ("t1", "t2"):
        journal.append(TurnAccepted(turn_id=turn_id, text=f"do {turn_id}"))
    journal.append(TurnStarted(turn_id="t1"))
    journal.append(TurnEnded(turn_id="t1", stop_reason="end_turn"))
    return journal


async def ask(hub: FakeHub, method: str, session: str) -> Any:
    await hub.until(lambda: hub.peer)
    return await hub.ask(CLIENT, method, {"sessionId": session})


@pytest.mark.spec("_lembas/session/history", "status: held here and none")
async def test_it_says_how_a_closed_session_stands_without_opening_it(paths: Paths) -> None:
    journal = store(paths)  # whose lock is held meanwhile: it needs none
    async with FakeHub(paths.socket) as hub, utility(paths):
        assert await ask(hub, "_lembas/session/status", SESSION) == {
            "sessionId": SESSION,
            "exists": True,
            "held": "none",
            "busy": False,
            "title": "Fix it",
            "queued": ["t2"],
            "lastTurnId": "t1",
        }
        assert await ask(hub, "_lembas/session/history", SESSION) == {
            "sessionId": SESSION,
            "title": "Fix it",
            "root": "/project",
            "turns": [{"role": "user", "text": "do t1", "turnId": "t1"}],
        }
        assert hub.hellos[0].role == "utility"
    journal.close()


async def test_a_session_that_is_not_there_is_said_to_be_none(paths: Paths) -> None:
    async with FakeHub(paths.socket) as hub, utility(paths):
        assert (await ask(hub, "_lembas/session/status", OTHER))["exists"] is False
        unknown = {"code": -32602, "message": "unknown session"}
        assert await ask(hub, "_lembas/session/history", OTHER) == unknown
        assert await ask(hub, "_lembas/session/history", "../../etc/passwd") == unknown
        assert (await ask(hub, "session/prompt", OTHER))["code"] == -32601
        nothing = {"code": -32602, "message": NOTHING_RUNS}
        assert await ask(hub, "_lembas/steer", SESSION) == nothing


async def test_a_journal_that_cannot_be_read_is_an_error_of_its_own(paths: Paths) -> None:
    (paths.session(SESSION) / "journal.jsonl").mkdir(parents=True)
    async with FakeHub(paths.socket) as hub, utility(paths):
        assert (await ask(hub, "_lembas/session/status", SESSION))["code"] == -32603


async def test_it_asks_to_leave_when_there_is_nothing_to_read(paths: Paths) -> None:
    async with FakeHub(paths.socket) as hub, utility(paths, idle_s=1.0) as task:
        await hub.kind(kinds.LEAVING)
        hub.control(kinds.LEAVE)
        assert await task == 0


@pytest.mark.parametrize("how", ["stop", "lost"])
async def test_it_ends_with_its_hub(paths: Paths, how: str) -> None:
    async with utility(paths) as task:
        async with FakeHub(paths.socket) as hub:
            await hub.until(lambda: hub.peer)
            if how == "stop":
                hub.stop()
                assert await task == 0
        assert await task == 0


async def test_a_frame_of_a_kind_that_is_not_known_is_answered(paths: Paths) -> None:
    async with FakeHub(paths.socket) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        hub.control("strange")
        assert msgspec.json.decode((await hub.kind(kinds.UNKNOWN)).payload) == {"kind": "strange"}


# ── commands ────────────────────────────────────────────────────────────────────────────────────


def names(answer: Any) -> Any:
    return [one["name"] for one in answer["commands"]][7:] if "commands" in answer else answer


async def test_it_tells_the_commands_of_a_session_and_of_a_directory(paths: Paths) -> None:
    project = (paths.config.parent / "project").resolve()
    for folder, name in ((project / ".agent" / "commands", "port"), (paths.commands, "mine")):
        folder.mkdir(parents=True)
        (folder / f"{name}.md").write_text("Do it.")
    journal = Journal.create(paths, SESSION)
    journal.append(Created(session_id=SESSION, root=str(project), mode="edit", model="m"))
    journal.close()
    limits = Remote(enabled=True, roots=[str(project)], require_trust=False)
    async with FakeHub(paths.socket, Settings(remote=limits)) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        for asked in ({"sessionId": SESSION}, {"cwd": str(project)}):
            answer = await hub.ask(CLIENT, "_lembas/commands", asked)
            assert names(answer) == ["port", "mine"]
            assert answer["commands"][3] == {
                "name": "review",
                "description": "Review what has changed",
                "input": {"hint": "head | <branch>"},
                "_meta": {"lembas": {"kind": "builtin"}},
            }
            assert answer["commands"][-1]["_meta"] == {"lembas": {"kind": "custom"}}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "_lembas/commands needs either a sessionId or a cwd; send one of them"),
        (
            {"sessionId": SESSION, "cwd": "/"},
            "_lembas/commands needs either a sessionId or a cwd; send one of them",
        ),
        ({"sessionId": OTHER}, "unknown session"),
        ({"sessionId": "../../etc"}, "unknown session"),
        ({"cwd": "here"}, "'here' is no absolute path; name a directory from / on"),
    ],
)
async def test_commands_of_what_is_not_there_are_refused(
    paths: Paths, asked: Any, says: str
) -> None:
    async with FakeHub(paths.socket, Settings()) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        answer = await hub.ask(CLIENT, "_lembas/commands", asked, local=True)
        assert (answer["code"], answer["message"]) == (-32602, says)


async def test_the_limits_bind_who_asks_for_commands_over_the_link(paths: Paths) -> None:
    store(paths).close()
    async with FakeHub(paths.socket, Settings()) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        for asked in ({"sessionId": SESSION}, {"cwd": str(paths.state)}):
            assert (await hub.ask(CLIENT, "_lembas/commands", asked))["code"] == -32602
            assert names(await hub.ask(CLIENT, "_lembas/commands", asked, local=True)) == []


# ── deleting ────────────────────────────────────────────────────────────────────────────────────

DELETE = "_lembas/session/delete"


def given_settings(hub: FakeHub, *roots: str, enabled: bool = True) -> None:
    hub.control(kinds.SETTINGS, Settings(remote=Remote(enabled=enabled, roots=list(roots))))


async def test_a_person_of_this_machine_deletes_what_they_want_and_the_instance_is_to_hear(
    paths: Paths,
) -> None:
    store(paths).close()
    async with FakeHub(paths.socket) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        params = {"sessionId": SESSION}
        assert await hub.ask(CLIENT, DELETE, params, local=True) == {"deleted": True}
        assert await hub.ask(CLIENT, DELETE, params, local=True) == {"deleted": False}
        assert Deletes(paths).kept() == [SESSION]


@pytest.mark.parametrize(
    ("roots", "enabled", "given", "reason"),
    [
        (["/project"], True, False, None),
        (["/"], True, False, None),
        (["/other"], True, False, "folder"),
        (["/project"], False, False, "remote_off"),
        ([], True, False, "folder"),
        ([], False, True, None),
    ],
)
async def test_the_instance_deletes_what_it_was_given_or_what_is_of_its_folders(
    paths: Paths, roots: list[str], enabled: bool, given: bool, reason: str | None
) -> None:
    journal = store(paths)
    if given:
        journal.append(Given())
    journal.close()
    async with FakeHub(paths.socket) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        given_settings(hub, *roots, enabled=enabled)
        answer = await hub.ask(CLIENT, DELETE, {"sessionId": SESSION})
        if reason is None:
            assert answer == {"deleted": True}
        else:
            assert (answer["code"], answer["data"]) == (-32602, {"reason": reason})
        assert paths.session(SESSION).exists() is (reason is not None)
        # it asked for it itself
        assert Deletes(paths).kept() == []


async def test_a_session_that_somebody_has_open_is_busy(paths: Paths) -> None:
    journal = store(paths)
    async with FakeHub(paths.socket) as hub, utility(paths):
        await hub.until(lambda: hub.peer)
        answer = await hub.ask(CLIENT, DELETE, {"sessionId": SESSION}, local=True)
        assert (answer["code"], answer["data"]) == (-32603, {"reason": "busy", "retryable": True})
    journal.close()


async def test_what_is_left_of_a_deletion_is_swept_by_the_next_one_that_reads(
    paths: Paths,
) -> None:
    store(paths).close()
    paths.session(SESSION).rename(paths.sessions / f".deleted-{SESSION}")
    async with FakeHub(paths.socket) as hub, utility(paths) as task, asyncio.timeout(TIMEOUT_S):
        while list(paths.sessions.iterdir()):  # it is swept beside what is asked
            await ask(hub, "_lembas/session/status", SESSION)
        hub.stop()
        await task


def old_session(paths: Paths, *, undo: bytes) -> None:
    journal = store(paths)
    kept = PreImages(journal.directory)
    kept.keep([(pre_image("c", Path("/p"), undo, 0o644, b"y"), undo)])
    journal.close()
    os.utime(journal.directory / "journal.jsonl", (0, 0))


async def tidied(paths: Paths, socket: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is logged when the hub says that it may be time; a request in between shows that it still answers."""
    async with Milestones(socket) as milestones, FakeHub(paths.socket) as hub:
        for name, value in milestones.environment.items():
            monkeypatch.setenv(name, value)
        with structlog.testing.capture_logs() as logged:
            async with utility(paths):
                await hub.until(lambda: hub.peer)
                hub.control(kinds.TIDY)
                assert (await ask(hub, "_lembas/session/status", OTHER))["exists"] is False
                await milestones.wait("worker.tidied")
    return logged


async def test_it_removes_what_is_kept_no_longer_once_a_day_and_says_so(
    paths: Paths, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_session(paths, undo=b"x" * 5000)
    paths.config_file.write_text("retention:\n  size: 1B\n")
    done, too_large = await tidied(paths, short_tmp / "m", monkeypatch)
    assert (done["event"], done["undo"], done["sessions"]) == ("store_tidied", 1, 0)
    assert done["freed_bytes"] > 5000
    assert too_large["event"] == "store_too_large"
    assert too_large["error"].endswith(
        "over retention.size (1 B); see `lembas sessions prune`, or set a larger one"
    )
    assert await tidied(paths, short_tmp / "n", monkeypatch) == []


async def test_each_session_that_expired_is_named_in_the_log(
    paths: Paths, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_session(paths, undo=b"")
    paths.config_file.write_text("retention:\n  sessions: 90d\n")
    expired, done = await tidied(paths, short_tmp / "m", monkeypatch)
    assert (expired["event"], expired["session_id"]) == ("session_expired", SESSION)
    assert (done["sessions"], Deletes(paths).kept()) == (1, [SESSION])


async def test_nothing_goes_while_the_config_cannot_be_read(
    paths: Paths, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_session(paths, undo=b"x")
    paths.config_file.write_text("retention:\n  sessions: 90\n")
    assert await tidied(paths, short_tmp / "m", monkeypatch) == []
    assert len(PreImages(paths.session(SESSION)).kept()) == 1
