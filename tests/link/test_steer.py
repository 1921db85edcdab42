"""link.md, `_lembas/steer`."""

import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, named
from tests.support.scripted_model import Reply


@pytest.mark.spec(
    "capability steer", "_lembas/steer", "steer: messageId", "event inbox", "event steered"
)
async def test_a_message_is_given_to_the_model_at_the_next_step(hub: LinkedHub) -> None:
    session = await hub.new()
    running, hold = await hub.working(session, "t1")
    for text, more, queued in (("in French", {"messageId": "m1"}, 1), ("short", {}, 2)):
        answer = await hub.client.ask("_lembas/steer", named(session, text=text, **more))
        assert answer == f'{{"queued":{queued}}}'
        assert await hub.client.event(session, "inbox") == {"type": "inbox", "count": queued}
    hold.set()
    assert await hub.client.answer(running) == (
        '{"stopReason":"end_turn","_meta":{"lembas":{"turnId":"t1"}}}'
    )
    assert await hub.client.event(session, "steered") == {
        "type": "steered",
        "texts": ["in French", "short"],
        "ids": ["m1"],
    }
    assert await hub.client.event(session, "inbox") == {"type": "inbox", "count": 0}
    said = str(hub.messages())
    assert "in French" in said
    assert "short" in said


@pytest.mark.spec("result: unsent")
async def test_what_a_turn_did_not_take_in_is_in_its_answer(hub: LinkedHub) -> None:
    session = await hub.new()
    running, _ = await hub.working(session, "t1")
    await hub.client.ask("_lembas/steer", named(session, text="too late", messageId="m1"))
    await hub.client.ask("_lembas/steer", named(session, text="this too"))
    hub.client.notify("session/cancel", named(session))
    answer = '{"stopReason":"cancelled","_meta":{"lembas":{"turnId":"t1","unsent":["too late","this too"]}}}'
    assert await hub.client.answer(running) == answer
    assert await hub.turn(session, "t1") == answer


@pytest.mark.spec("steer: refused while nothing runs")
async def test_where_nothing_runs_it_is_to_be_sent_as_a_prompt(hub: LinkedHub) -> None:
    session = await hub.new()
    assert await hub.client.ask("_lembas/steer", named(session, text="go")) == (
        '{"code":-32602,"message":"nothing runs in this session now; send it as a prompt"}'
    )
    assert await hub.client.ask("_lembas/steer", named("ses_" + "0" * 26, text="go")) == UNKNOWN
    running, hold = await hub.working(session, "t1")
    assert await hub.client.ask("_lembas/steer", named(session, text="  ")) == (
        '{"code":-32602,"message":"the message is empty; write something"}'
    )
    hold.set()
    await hub.client.answer(running)


async def test_a_message_of_a_step_with_a_call_comes_after_its_result(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    hub.model.script(Reply(calls=[("bash", {"command": "echo a > a"})]), Reply("done"))
    running = hub.prompt(session, "t1")
    card = await hub.client.card(session)
    await hub.client.ask("_lembas/steer", named(session, text="and b", messageId="m1"))
    hub.client.allow(card)
    await hub.client.answer(running)
    roles = [one["role"] for one in hub.messages()]
    assert roles[-2:] == ["tool", "user"]
    assert "and b" in hub.messages()[-1]["content"]
