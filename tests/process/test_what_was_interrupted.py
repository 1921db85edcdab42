"""What a person finds after a worker died in a turn, or with its session's files in a bad state."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Client, Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

UNREADABLE = "the session's journal cannot be read, lembasd's log says why; mend it, or go on in a new session"


@pytest.fixture
async def client(zygote_install: Install) -> AsyncIterator[Client]:
    await zygote_install.start_hub()
    client = await zygote_install.client()
    await client.initialize()
    yield client
    client.hub.close()


async def kill(install: Install, session: str) -> None:
    pid = await worker_pid(install, session)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)


async def test_what_was_said_for_a_turn_comes_back_once_its_worker_died(
    zygote_install: Install, client: Client, model: ScriptedModel
) -> None:
    model.script(Reply(text="thinking", hold=asyncio.Event()))
    session = await new_session(client, zygote_install)
    turn = client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await client.event("text")
    for text in ("look at the tests too", "and be short"):
        await client.ask("_lembas/steer", {"sessionId": session, "text": text})
    os.kill(await worker_pid(zygote_install, session), signal.SIGKILL)
    with pytest.raises(RequestRefused):
        await turn
    with pytest.raises(RequestRefused) as refused:
        await client.ask("session/prompt", prompt(session, "go", "t1"))
    assert refused.value.data == {
        "reason": "worker_ended",
        "unsent": ["look at the tests too", "and be short"],
    }


def emptied(journal: Path) -> None:
    journal.write_bytes(b"")


def without_its_first_line(journal: Path) -> None:
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[1:]))


def a_directory(journal: Path) -> None:
    journal.unlink()
    journal.mkdir()


def a_fifo(journal: Path) -> None:
    journal.unlink()
    os.mkfifo(journal)


@pytest.mark.parametrize("damage", [emptied, without_its_first_line, a_directory, a_fifo])
async def test_a_session_whose_journal_cannot_be_read_says_what_to_do(
    zygote_install: Install, client: Client, damage: Callable[[Path], None]
) -> None:
    session, other = [await new_session(client, zygote_install) for _ in range(2)]
    for each in (session, other):
        await client.ask("session/prompt", prompt(each, "go", "t1"))
    await kill(zygote_install, session)
    damage(zygote_install.paths.session(session) / "journal.jsonl")
    with suppress(RequestRefused):
        # at the latest now the hub knows that the worker is gone
        await client.ask("session/prompt", prompt(session, "go", "t2"))
    for turn in ("t3", "t4"):
        with pytest.raises(RequestRefused) as refused:
            await client.ask("session/prompt", prompt(session, "go", turn))
        assert refused.value.data == {"reason": "unreadable"}
        assert refused.value.message == UNREADABLE
    answer = await client.ask("session/prompt", prompt(other, "go", "t2"))
    assert answer["stopReason"] == "end_turn"
