"""`_lembas/show`: as it is on the wire, to whom a file is sent, and what each answer comes to."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnInput, TurnOutcome
from tests.support import scripted_engine
from tests.support.asking_session import EDITOR, AskingSession, asking_session, prompt
from tests.support.bare_client import LEMBAS, BareClient, Message
from tests.support.scripted_engine import SHOW, ScriptedEngine

METHOD = '"method":"_lembas/show"'
PARAMS = (
    '"params":{"sessionId":"%s","toolCallId":"call_s","path":"a.py","kind":"code",'
    '"text":"a = 1\\n","language":"python","line":1}'
)
SHOWS_NOTHING = LEMBAS.replace(',"show":true', "")


def outcome(kind: str, reason: str = "") -> dict[str, Any]:
    return {"outcome": kind, "reason": reason}


@pytest.fixture
async def scene(short_tmp: Path) -> AsyncIterator[AskingSession]:
    async with asking_session(short_tmp) as one:
        yield one


async def shown(link: BareClient, session: str) -> tuple[int, Message]:
    """A turn that shows a file; the number of its prompt, and what was sent."""
    number = link.start("session/prompt", prompt(session, "show"))
    return number, await link.said(METHOD)


@pytest.mark.spec("_lembas/show")
async def test_a_file_is_sent_as_the_document_says_and_shown(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    turn, sent = await shown(link, session)
    assert sent.text == f'{{"jsonrpc":"2.0","id":"{session}:1:2",{METHOD},{PARAMS % session}}}'
    link.reply(sent, '{"shown":true}')
    await link.answer(turn)
    assert scene.outcome() == outcome("shown")
    assert not any("settled" in one.text for one in link.told)


async def test_a_file_that_is_not_shown_says_the_clients_reason(scene: AskingSession) -> None:
    link = await scene.link()
    turn, sent = await shown(link, await scene.open(link))
    link.reply(sent, '{"shown":false,"reason":"no viewer is open"}')
    await link.answer(turn)
    assert scene.outcome() == outcome("refused", "no viewer is open")


async def test_a_client_that_does_not_know_it_still_is_asked_questions(
    scene: AskingSession,
) -> None:
    link = await scene.link()
    session = await scene.open(link)
    turn, sent = await shown(link, session)
    link.fail(sent, -32601)
    await link.answer(turn)
    assert scene.outcome()["outcome"] == "refused"
    link.start("session/prompt", prompt(session, "question"))
    await link.said('"method":"_lembas/question"')


@pytest.mark.parametrize("said", [SHOWS_NOTHING, EDITOR])
async def test_nothing_is_sent_to_a_client_that_did_not_say_that_it_shows(
    scene: AskingSession, said: str
) -> None:
    link = await scene.link(said)
    await link.ask("session/prompt", prompt(await scene.open(link), "show"))
    assert scene.outcome() == outcome("nobody")
    assert not any(METHOD in one.text for one in link.told)


async def test_nothing_is_sent_to_a_client_that_only_looks(scene: AskingSession) -> None:
    link, local = await scene.link(), await scene.local()
    session = await scene.open(local)
    # the instance is given the session by its prompt
    turn, sent = await shown(local, session)
    local.reply(sent, '{"shown":true}')
    await local.answer(turn)
    turn = link.start("session/prompt", prompt(session, "show"))
    local.reply(await local.said(METHOD), '{"shown":true}')
    await link.answer(turn)
    assert not any(METHOD in one.text for one in link.told)


async def test_the_links_client_opened_its_session_on_every_link(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    await link.ask("_lembas/session/status", f'{{"sessionId":"{session}"}}')
    link.device.drop()
    next_link = await scene.link()
    turn, sent = await shown(next_link, session)
    next_link.reply(sent, '{"shown":true}')
    await next_link.answer(turn)
    assert scene.outcome() == outcome("shown")


async def large(engine: ScriptedEngine, turn: TurnInput) -> TurnOutcome:
    """Show a file of as many characters as the prompt says."""
    text = "a" * int(turn.text)
    engine.outcomes.append(await engine.host.show(msgspec.structs.replace(SHOW, text=text)))
    return scripted_engine.ENDED


async def test_a_file_of_more_than_a_megabyte_is_refused_before_it_is_sent(
    scene: AskingSession,
) -> None:
    scene.bench.script = large
    link = await scene.link()
    session = await scene.open(link)
    await link.ask("session/prompt", prompt(session, "1000001"))
    refused = scene.outcome()
    assert refused["outcome"] == "refused"
    assert "1 MB" in refused["reason"]
    assert not any(METHOD in one.text for one in link.told)
    turn = link.start("session/prompt", prompt(session, "1000000"))
    link.reply(await link.said(METHOD), '{"shown":true}')
    await link.answer(turn)
    assert scene.outcome() == outcome("shown")
