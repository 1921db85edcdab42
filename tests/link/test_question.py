"""`_lembas/question`: as it is on the wire, who is asked, and what each answer comes to."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking_session import (
    EDITOR,
    LEMBAS_1,
    LEMBAS_2,
    AskingSession,
    asking_session,
    prompt,
)
from tests.support.bare_client import LEMBAS, BareClient, Message

QUESTION = '"method":"_lembas/question"'
SETTLED = '"method":"_lembas/permission/settled"'
#: the question of the scripted engine as it is on the wire: what is recommended first, the long label cut
PARAMS = (
    '"params":{"sessionId":"%s","toolCallId":"call_q","questions":['
    '{"header":"DB","question":"Which database?","multiple":false,"options":['
    '{"label":"SQLite","description":"a file","recommended":true},{"label":"Postgres"}]},'
    '{"header":"Tests","question":"Which tests?","multiple":true,"options":['
    '{"label":"unit"},{"label":"' + "u" * 240 + '"}]}],'
    '"why":"both would do","_meta":{"lembas":%s}}'
)
ANSWERED = (
    '{"outcome":"answered","answers":[{"kind":"options","labels":["SQLite"]},'
    '{"kind":"options","labels":["unit","' + "u" * 240 + '"]}]}'
)
WHOLE = {
    "outcome": "answered",
    "answers": [
        {"kind": "options", "labels": ["SQLite"]},
        {"kind": "options", "labels": ["unit", "u" * 300]},
    ],
}
DISMISSED: dict[str, Any] = {"outcome": "dismissed", "answers": []}
NOBODY: dict[str, Any] = {"outcome": "nobody", "answers": []}
UNKNOWN = -32601


@pytest.fixture
async def scene(short_tmp: Path) -> AsyncIterator[AskingSession]:
    async with asking_session(short_tmp) as one:
        yield one


async def asked(link: BareClient, session: str) -> tuple[int, Message]:
    """A turn that asks; the number of its prompt, and the question."""
    number = link.start("session/prompt", prompt(session, "question"))
    return number, await link.said(QUESTION)


@pytest.mark.spec("_lembas/question")
@pytest.mark.parametrize("lembas", [LEMBAS_2, LEMBAS])
async def test_it_is_asked_as_the_document_says_and_answered(
    scene: AskingSession, lembas: str
) -> None:
    link = await scene.link(lembas)
    session = await scene.open(link)
    turn, question = await asked(link, session)
    assert question.text == (
        f'{{"jsonrpc":"2.0","id":"{session}:1:2",{QUESTION},{PARAMS % (session, "{}")}}}'
    )
    link.reply(question, ANSWERED)
    assert '"stopReason":"end_turn"' in await link.answer(turn)
    assert scene.outcome() == WHOLE
    assert not any(SETTLED in one.text for one in link.told)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (
            '{"outcome":"answered","answers":[{"kind":"custom","text":"MySQL"},{"kind":"back","text":"why?"}]}',
            {
                "outcome": "answered",
                "answers": [{"kind": "custom", "text": "MySQL"}, {"kind": "back", "text": "why?"}],
            },
        ),
        (
            '{"outcome":"answered","answers":[{"kind":"skipped"},{"kind":"skipped"}]}',
            {"outcome": "answered", "answers": [{"kind": "skipped"}, {"kind": "skipped"}]},
        ),
        ('{"outcome":"dismissed"}', DISMISSED),
        ('{"outcome":"answered","answers":[{"kind":"skipped"}]}', DISMISSED),
        ('{"outcome":"answered"}', DISMISSED),
        ('{"outcome":{"outcome":"selected","optionId":"once"}}', DISMISSED),
        ("null", DISMISSED),
    ],
)
async def test_each_kind_of_answer_is_told_and_anything_else_reads_as_dismissed(
    scene: AskingSession, result: str, outcome: dict[str, Any]
) -> None:
    link = await scene.link()
    turn, question = await asked(link, await scene.open(link))
    link.reply(question, result)
    await link.answer(turn)
    assert scene.outcome() == outcome


async def test_a_person_here_is_asked_too_and_the_other_card_is_taken_down(
    scene: AskingSession,
) -> None:
    link, local = await scene.link(), await scene.local()
    session = await scene.open(link)
    await local.ask("_hub/attach", f'{{"sessionId":"{session}"}}')
    turn, question = await asked(link, session)
    assert PARAMS % (session, '{"patient":true}') in question.text
    local.reply(await local.said(QUESTION), ANSWERED)
    assert (await link.said(SETTLED)).text == (
        f'{{"jsonrpc":"2.0",{SETTLED},"params":{{"sessionId":"{session}","toolCallId":"call_q"}}}}'
    )
    link.reply(question, '{"outcome":"dismissed"}')
    await link.answer(turn)
    assert scene.outcome() == WHOLE
    assert not any(SETTLED in one.text for one in local.told)


async def test_it_is_asked_again_on_the_next_link_under_another_id(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    _, question = await asked(link, session)
    link.device.drop()
    next_link = await scene.link()
    again = await next_link.said(QUESTION)
    assert again.text == question.text.replace(f"{session}:1:2", f"{session}:1:3")
    next_link.reply(question, '{"outcome":"dismissed"}')
    next_link.reply(again, ANSWERED)
    await next_link.said('"type":"done"')
    assert scene.outcome() == WHOLE


async def test_nobody_answering_is_a_dismissal_and_the_card_is_taken_down(short_tmp: Path) -> None:
    async with asking_session(short_tmp, approval_timeout_s=0.05) as scene:
        link = await scene.link()
        turn, question = await asked(link, await scene.open(link))
        await link.said(SETTLED)
        await link.answer(turn)
        link.reply(question, ANSWERED)
        assert scene.outcome() == DISMISSED


async def test_a_cancelled_turn_takes_it_down(scene: AskingSession) -> None:
    link = await scene.link()
    session = await scene.open(link)
    turn, _ = await asked(link, session)
    link.notify("session/cancel", f'{{"sessionId":"{session}"}}')
    await link.said(SETTLED)
    assert '"stopReason":"cancelled"' in await link.answer(turn)


@pytest.mark.spec(
    "versions: lembas true is a client of protocol 1",
    "versions: a client without lembas gets plain ACP",
)
@pytest.mark.parametrize("said", [LEMBAS_1, EDITOR])
async def test_who_did_not_say_protocol_2_is_not_asked(scene: AskingSession, said: str) -> None:
    link = await scene.link(said)
    await link.ask("session/prompt", prompt(await scene.open(link), "question"))
    assert scene.outcome() == NOBODY
    assert not any("_lembas/question" in one.text or SETTLED in one.text for one in link.told)


@pytest.mark.spec("versions: a client that knows no question is one of protocol 1")
async def test_who_knows_no_question_is_asked_none_for_the_rest_of_its_link(
    scene: AskingSession,
) -> None:
    link = await scene.link()
    first, second = await scene.open(link), await scene.open(link)
    turn, question = await asked(link, first)
    link.fail(question, UNKNOWN)
    await link.answer(turn)
    assert scene.bench.engines[0].outcomes[0].outcome == "nobody"
    # in every session, and of plans too
    for session, text in ((second, "question"), (first, "plan")):
        await link.ask("session/prompt", prompt(session, text))
    outcomes = [one.outcomes[-1].outcome for one in scene.bench.engines]
    assert outcomes == ["nobody", "nobody"]
    assert not any(QUESTION in one.text or "_lembas/plan" in one.text for one in link.told)
    # the next link is asked again
    link.device.drop()
    next_link = await scene.link()
    turn, question = await asked(next_link, second)
    next_link.reply(question, ANSWERED)
    await next_link.answer(turn)
    assert scene.outcome() == WHOLE


async def test_a_question_that_one_client_does_not_know_goes_on_at_this_machine(
    scene: AskingSession,
) -> None:
    link, local = await scene.link(), await scene.local()
    session = await scene.open(link)
    await local.ask("_hub/attach", f'{{"sessionId":"{session}"}}')
    turn, question = await asked(link, session)
    link.fail(question, UNKNOWN)
    local.reply(await local.said(QUESTION), ANSWERED)
    await link.answer(turn)
    assert scene.outcome() == WHOLE


@pytest.mark.spec("limits: judged at each request")
async def test_an_answer_of_the_link_counts_for_nothing_once_remote_work_is_off(
    scene: AskingSession,
) -> None:
    link = await scene.link()
    turn, question = await asked(link, await scene.open(link))
    scene.set_remote(enabled=False)
    link.reply(question, ANSWERED)
    await link.answer(turn)
    assert scene.outcome() == DISMISSED
