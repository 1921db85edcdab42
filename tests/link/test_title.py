"""link.md, `_lembas/session/title`."""

import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, named


@pytest.mark.spec(
    "_lembas/session/title", "event title", "capability title", "title: at most 200 characters"
)
async def test_a_title_is_one_line_of_at_most_200_characters(hub: LinkedHub) -> None:
    session = await hub.new()

    async def title(text: str) -> str:
        return await hub.client.ask("_lembas/session/title", named(session, title=text))

    assert await title("  Two\n words ") == '{"title":"Two words"}'
    assert (await hub.client.said('"type":"title"')).text == (
        f'{{"jsonrpc":"2.0","method":"_lembas/event","params":{{"sessionId":"{session}","event":'
        f'{{"type":"title","id":"{session}","title":"Two words"}}}}}}'
    )
    assert await title("x" * 201) == (
        '{"code":-32602,"message":"a title has at most 200 characters; send a shorter one"}'
    )
    assert await title(" ") == '{"code":-32602,"message":"the title is empty; write something"}'
    assert '"code":-32602' in await title("x" * 10_000_000)
    assert await hub.status(session) == (
        f'{{"sessionId":"{session}","exists":true,"held":"here","busy":false,"title":"Two words","queued":[]}}'
    )
    assert await title("x" * 200) == f'{{"title":"{"x" * 200}"}}'
    # a turn takes no title away
    await hub.turn(session, "t1")
    assert (await hub.history(session))["title"] == "x" * 200
    unknown = named("ses_" + "0" * 26, title="x")
    assert await hub.client.ask("_lembas/session/title", unknown) == UNKNOWN


async def test_it_may_be_named_while_it_works(hub: LinkedHub) -> None:
    session = await hub.new()
    running, hold = await hub.working(session, "t1")
    named_so = named(session, title="Bread")
    assert await hub.client.ask("_lembas/session/title", named_so) == '{"title":"Bread"}'
    hold.set()
    await hub.client.answer(running)
    assert '"title":"Bread"' in await hub.status(session)
