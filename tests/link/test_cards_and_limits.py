"""A permission card that waits while the device's limits change: what the link answers counts as they are then."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnInput, TurnOutcome
from tests.support import scripted_engine
from tests.support.asking_session import AskingSession, asking_session, prompt
from tests.support.bare_client import BareClient, Message
from tests.support.scripted_engine import CARD, ScriptedEngine

CARD_OF = '"method":"session/request_permission"'
SETTLED = '"method":"_lembas/permission/settled"'
ONCE = '{"outcome":{"outcome":"selected","optionId":"once"}}'


async def carded(scene: AskingSession, link: BareClient) -> tuple[str, int, Message]:
    """A turn that asks for a command's permission: session, number of the prompt, card."""
    scene.bench.script = scripted_engine.ask
    session = await scene.open(link)
    number = link.start("session/prompt", prompt(session, "go"))
    return session, number, await link.said(CARD_OF)


@pytest.mark.spec("limits: judged at each request")
@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"enabled": False}, "`lembas remote on`"),
        ({"roots": []}, "`lembas remote add DIR`"),
        ({"roots": ["/nowhere"]}, "outside the folders"),
        ({"require_trust": True}, "`lembas trust add"),
    ],
)
async def test_a_yes_of_the_link_is_a_denial_once_the_limits_forbid_the_session(
    short_tmp: Path, limits: dict[str, Any], says: str
) -> None:
    async with asking_session(short_tmp) as scene:
        link = await scene.link()
        _, turn, card = await carded(scene, link)
        scene.set_remote(**limits)
        link.reply(card, ONCE)
        await link.answer(turn)
        (decision,) = scene.bench.engine.decisions
        assert decision.outcome == "deny"
        assert says in (decision.feedback or "")


async def test_what_the_link_may_not_decide_any_more_is_left_to_a_person_here(
    short_tmp: Path,
) -> None:
    async with asking_session(short_tmp) as scene:
        link, local = await scene.link(), await scene.local()
        scene.bench.script = scripted_engine.ask
        session = await scene.open(link)
        await local.ask("_hub/attach", f'{{"sessionId":"{session}"}}')
        turn = link.start("session/prompt", prompt(session, "go"))
        card, mine = await link.said(CARD_OF), await local.said(CARD_OF)
        scene.set_remote(enabled=False)
        link.reply(card, ONCE)
        # judged after the card's answer, as that is
        await link.ask("_lembas/steer", f'{{"sessionId":"{session}","text":"go on"}}')
        local.reply(mine, '{"outcome":{"outcome":"selected","optionId":"deny"}}')
        await link.said(SETTLED)
        await link.answer(turn)
        assert [one.outcome for one in scene.bench.engine.decisions] == ["deny"]


async def test_remote_work_that_is_on_again_counts_again(short_tmp: Path) -> None:
    async with asking_session(short_tmp) as scene:
        link = await scene.link()
        _, turn, card = await carded(scene, link)
        scene.set_remote(enabled=False)
        await link.ask("_lembas/session/status", '{"sessionId":"ses_00000000000000000000000000"}')
        scene.set_remote(enabled=True)
        link.reply(card, ONCE)
        await link.answer(turn)
        assert [one.outcome for one in scene.bench.engine.decisions] == ["once"]


async def ask_twice(engine: ScriptedEngine, turn: TurnInput) -> TurnOutcome:
    """Ask for two calls at once."""
    other = msgspec.structs.replace(CARD, tool_call_id="other")
    engine.decisions += await asyncio.gather(engine.host.ask(CARD), engine.host.ask(other))
    return scripted_engine.ENDED


@pytest.mark.spec("card: several at once", "_lembas/permission/settled")
async def test_two_cards_of_one_session_are_settled_each_by_its_own_call(short_tmp: Path) -> None:
    async with asking_session(short_tmp) as scene:
        link, local = await scene.link(), await scene.local()
        scene.bench.script = ask_twice
        session = await scene.open(link)
        await local.ask("_hub/attach", f'{{"sessionId":"{session}"}}')
        turn = link.start("session/prompt", prompt(session, "go"))
        first = await link.said(CARD_OF, '"toolCallId":"' + CARD.tool_call_id)
        await link.said(CARD_OF, '"toolCallId":"other"')
        local.reply(await local.said(CARD_OF, '"toolCallId":"other"'), ONCE)
        settled = await link.said(SETTLED)
        assert settled.params == {"sessionId": session, "toolCallId": "other"}
        # the other one still stands
        link.reply(first, '{"outcome":{"outcome":"selected","optionId":"deny"}}')
        await link.answer(turn)
        assert [one.outcome for one in scene.bench.engine.decisions] == ["deny", "once"]
        assert not any(SETTLED in one.text for one in link.told)
