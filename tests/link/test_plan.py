"""`_lembas/plan`: as it is on the wire, who is asked, and what each answer comes to."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking_session import (
    EDITOR,
    LEMBAS_1,
    AskingSession,
    asking_session,
    prompt,
)
from tests.support.bare_client import BareClient, Message

PLAN = '"method":"_lembas/plan"'
SETTLED = '"method":"_lembas/permission/settled"'
PARAMS = (
    '"params":{"sessionId":"%s","toolCallId":"call_p","path":".agent/plans/db.md",'
    '"text":"# Move","plan":{"version":1},"_meta":{"lembas":%s}}'
)
EDIT = '{"outcome":"approve","mode":"edit"}'
MANUAL = '{"outcome":"approve","mode":"manual"}'


def outcome(kind: str, mode: str | None = None, feedback: str = "") -> dict[str, Any]:
    return {"outcome": kind, "mode": mode, "feedback": feedback}


@pytest.fixture
async def scene(short_tmp: Path) -> AsyncIterator[AskingSession]:
    async with asking_session(short_tmp) as one:
        yield one


async def submitted(link: BareClient, session: str) -> tuple[int, Message]:
    """A turn that submits a plan; the number of its prompt, and the plan."""
    number = link.start("session/prompt", prompt(session, "plan"))
    return number, await link.said(PLAN)


@pytest.mark.spec("_lembas/plan")
async def test_it_is_put_as_the_document_says_and_approved(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    turn, plan = await submitted(link, session)
    assert (
        plan.text == f'{{"jsonrpc":"2.0","id":"{session}:1:2",{PLAN},{PARAMS % (session, "{}")}}}'
    )
    link.reply(plan, EDIT)
    assert '"stopReason":"end_turn"' in await link.answer(turn)
    assert scene.outcome() == outcome("approve", "edit")


@pytest.mark.parametrize(
    ("max_mode", "result", "told"),
    [
        ("auto", EDIT, outcome("approve", "edit")),
        ("manual", EDIT, outcome("approve", "manual")),
        ("manual", MANUAL, outcome("approve", "manual")),
        ("auto", '{"outcome":"approve","mode":"auto"}', outcome("dismissed")),
        ("auto", '{"outcome":"approve"}', outcome("dismissed")),
        ("plan", EDIT, outcome("dismissed")),
        (
            "plan",
            '{"outcome":"revise","feedback":"shorter"}',
            outcome("revise", feedback="shorter"),
        ),
        ("auto", '{"outcome":"dismissed"}', outcome("dismissed")),
        ("auto", '{"outcome":"revise"}', outcome("dismissed")),
        ("auto", "[]", outcome("dismissed")),
    ],
)
async def test_each_answer_is_told_in_a_mode_that_the_limits_allow(
    short_tmp: Path, max_mode: str, result: str, told: dict[str, Any]
) -> None:
    async with asking_session(short_tmp, max_mode=max_mode) as scene:
        link = await scene.link()
        turn, plan = await submitted(link, await scene.open(link))
        link.reply(plan, result)
        await link.answer(turn)
        assert scene.outcome() == told


async def test_the_limits_do_not_bind_a_person_here_and_what_the_link_may_not_decide_is_left_to_it(
    short_tmp: Path,
) -> None:
    async with asking_session(short_tmp, max_mode="plan") as scene:
        link, local = await scene.link(), await scene.local()
        session = await scene.open(link)
        await local.ask("_hub/attach", f'{{"sessionId":"{session}"}}')
        turn, plan = await submitted(link, session)
        assert PARAMS % (session, '{"patient":true}') in plan.text
        link.reply(plan, MANUAL)
        local.reply(await local.said(PLAN), EDIT)
        await link.answer(turn)
        assert scene.outcome() == outcome("approve", "edit")


async def test_it_is_put_again_on_the_next_link(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    _, plan = await submitted(link, session)
    link.device.drop()
    next_link = await scene.link()
    again = await next_link.said(PLAN)
    assert again.text == plan.text.replace(f"{session}:1:2", f"{session}:1:3")
    next_link.reply(again, EDIT)
    await next_link.said('"type":"done"')
    assert scene.outcome() == outcome("approve", "edit")


async def test_nobody_answering_is_a_dismissal_and_the_card_is_taken_down(short_tmp: Path) -> None:
    async with asking_session(short_tmp, approval_timeout_s=0.05) as scene:
        link = await scene.link()
        session = await scene.open(link)
        turn, _ = await submitted(link, session)
        settled = f'"params":{{"sessionId":"{session}","toolCallId":"call_p"}}'
        assert settled in (await link.said(SETTLED)).text
        await link.answer(turn)
        assert scene.outcome() == outcome("dismissed")


@pytest.mark.parametrize("said", [LEMBAS_1, EDITOR])
async def test_who_did_not_say_protocol_2_is_not_asked(scene: AskingSession, said: str) -> None:
    link = await scene.link(said)
    await link.ask("session/prompt", prompt(await scene.open(link), "plan"))
    assert scene.outcome() == outcome("nobody")
    assert not any("_lembas/plan" in one.text or SETTLED in one.text for one in link.told)


@pytest.mark.spec("versions: a client that knows no question is one of protocol 1")
async def test_who_knows_no_plan_is_asked_no_question_either(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    turn, plan = await submitted(link, session)
    link.fail(plan, -32601)
    await link.answer(turn)
    assert scene.outcome() == outcome("nobody")
    await link.ask("session/prompt", prompt(session, "question"))
    assert scene.outcome() == {"outcome": "nobody", "answers": []}
    assert not any("_lembas/question" in one.text for one in link.told)


@pytest.mark.spec("limits: judged at each request")
@pytest.mark.parametrize("limits", [{"enabled": False}, {"roots": []}, {"require_trust": True}])
async def test_an_approval_of_the_link_counts_for_nothing_once_the_limits_forbid_it(
    scene: AskingSession, limits: dict[str, Any]
) -> None:
    link = await scene.link()
    turn, plan = await submitted(link, await scene.open(link))
    scene.set_remote(**limits)
    link.reply(plan, EDIT)
    await link.answer(turn)
    assert scene.outcome() == outcome("dismissed")
