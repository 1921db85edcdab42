"""link.md, `_lembas/session/compact`."""

import asyncio

import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, named
from tests.support.scripted_model import Reply

WORKS = '{"code":-32602,"message":"the session works; ask again when it is done"}'


@pytest.mark.spec("capability compact", "_lembas/session/compact", "event compacted")
async def test_the_conversation_is_summed_up_and_goes_on_from_there(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.turn(session, "t1")
    hub.model.script(Reply("the bread was baked"))
    answer = await hub.client.ask("_lembas/session/compact", named(session))
    assert answer == '{"summary":"the bread was baked"}'
    compacted = await hub.client.event(session, "compacted")
    assert compacted == {"type": "compacted", "summary": "the bread was baked"}
    await hub.turn(session, "t2")
    said = str(hub.messages())
    assert "the bread was baked" in said
    assert "say t1" not in said
    # what was said is in the history all the same
    users = [one for one in (await hub.history(session))["turns"] if one["role"] == "user"]
    assert [one["text"] for one in users] == ["say t1", "say t2"]
    assert await hub.client.ask("_lembas/session/compact", named("ses_" + "0" * 26)) == UNKNOWN


@pytest.mark.spec("compact: refused while the session works")
async def test_it_is_refused_while_the_session_works_and_a_prompt_waits_for_it(
    hub: LinkedHub,
) -> None:
    session = await hub.new()
    running, hold = await hub.working(session, "t1")
    assert await hub.client.ask("_lembas/session/compact", named(session)) == WORKS
    hold.set()
    await hub.client.answer(running)
    summing = asyncio.Event()
    hub.model.script(Reply("short", hold=summing))
    asked = len(hub.model.requests)
    compact = hub.client.start("_lembas/session/compact", named(session))
    prompt = hub.prompt(session, "t2")
    assert '"busy":true' in await hub.status(session)
    summing.set()
    assert await hub.client.answer(compact) == '{"summary":"short"}'
    assert '"stopReason":"end_turn"' in await hub.client.answer(prompt)
    assert len(hub.model.requests) == asked + 2


async def test_a_summary_that_the_model_fails_is_an_error_and_changes_nothing(
    hub: LinkedHub,
) -> None:
    session = await hub.new()
    await hub.turn(session, "t1")
    hub.model.script(Reply(status=400, raw=b'{"error":{"message":"no"}}'))
    assert '"code":-32603' in await hub.client.ask("_lembas/session/compact", named(session))
    await hub.turn(session, "t2")
    assert "say t1" in str(hub.messages())
