"""`held` of `_lembas/session/status`: who has the session."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.support.asking_session import AskingSession, asking_session
from tests.support.bare_client import BareClient


@pytest.fixture
async def scene(short_tmp: Path) -> AsyncIterator[AskingSession]:
    async with asking_session(short_tmp) as one:
        yield one


async def held(client: BareClient, session: str) -> str:
    status = await client.value("_lembas/session/status", f'{{"sessionId":"{session}"}}')
    return str(status["held"])


@pytest.mark.spec("status: held by a terminal")
async def test_a_terminal_holds_what_it_opened_while_it_is_there(scene: AskingSession) -> None:
    link, local = await scene.link(), await scene.local()
    session = await scene.open(local)
    assert await held(link, session) == "terminal"
    local.device.drop()
    assert await held(link, session) == "here"


@pytest.mark.spec("status: held here and none")
async def test_a_terminal_that_only_looks_holds_nothing(scene: AskingSession) -> None:
    link, local = await scene.link(), await scene.local()
    session = await scene.open(link)
    await local.ask("_hub/attach", f'{{"sessionId":"{session}"}}')
    assert await held(link, session) == "here"


@pytest.mark.spec("status: held by a terminal")
async def test_a_terminal_that_comes_back_holds_what_it_opened(scene: AskingSession) -> None:
    link, local = await scene.link(), await scene.local()
    session = await scene.open(local)
    local.device.drop()
    again = await scene.local()
    looked = msgspec.json.encode({"sessionId": session, "since": "1:0"}).decode()
    await again.ask("_hub/attach", looked)
    assert await held(link, session) == "terminal"
