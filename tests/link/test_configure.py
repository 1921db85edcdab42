"""link.md, `_lembas/configure`."""

from typing import Any

import msgspec
import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, named


@pytest.mark.spec(
    "_lembas/configure",
    "configure: a level",
    "event model",
    "capability configure",
    "capability model",
)
async def test_model_and_effort_change_between_prompts_and_a_change_is_told(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.turn(session, "t1")

    async def configure(**fields: Any) -> str:
        return await hub.client.ask("_lembas/configure", named(session, **fields))

    hub.client.told.clear()
    assert await configure() == '{"model":"plain","effort":"default"}'
    assert (
        await configure(model="plain", effort="default") == '{"model":"plain","effort":"default"}'
    )
    assert hub.client.told == []
    answer = await configure(model="deepseek/flash", effort="high")
    assert answer == '{"model":"deepseek/flash","effort":"high"}'
    assert (await hub.client.said(session)).text == (
        f'{{"jsonrpc":"2.0","method":"_lembas/event","params":{{"sessionId":"{session}","event":'
        '{"type":"model","ref":"deepseek/flash","effort":"high","connection":"moria","instance":true}}}'
    )
    # the model stays, the level is one of its own
    assert await configure(effort="wild") == '{"model":"deepseek/flash","effort":"low"}'
    assert (await hub.client.event(session, "model"))["effort"] == "low"
    assert await configure(model="moria/flash") == '{"model":"deepseek/flash","effort":"low"}'
    assert await configure(model="eyes", effort="off") == '{"model":"eyes","effort":"off"}'
    await configure(model="deepseek/flash")
    await hub.turn(session, "t2")
    assert [(body["model"], body.get("reasoning_effort")) for body in hub.model.requests] == [
        ("plain", None),
        ("deepseek/flash", "low"),
    ]


@pytest.mark.spec("configure: a model that is not served is -32602")
async def test_a_model_that_is_not_served_is_refused_and_the_session_keeps_its_own(
    hub: LinkedHub,
) -> None:
    session = await hub.new(model="deepseek/flash")
    for name, message in (
        ("none", "Moria serves no model 'none' to this device; choose another"),
        ("words", "words holds no conversation, it is a model for embedding; choose another"),
        ("", "the name of model has 1 to 500 characters; send another one"),
    ):
        answer = await hub.client.ask("_lembas/configure", named(session, model=name))
        error = msgspec.json.decode(answer)
        assert (error["code"], error["message"]) == (-32602, message)
    assert await hub.client.ask("_lembas/configure", named(session)) == (
        '{"model":"deepseek/flash","effort":"low"}'
    )
    assert await hub.client.ask("_lembas/configure", named("ses_" + "0" * 26)) == UNKNOWN


async def test_it_is_refused_while_the_session_works(hub: LinkedHub) -> None:
    session = await hub.new()
    running, hold = await hub.working(session, "t1")
    assert await hub.client.ask("_lembas/configure", named(session, effort="high")) == (
        '{"code":-32602,"message":"the session works; ask again when it is done"}'
    )
    hold.set()
    await hub.client.answer(running)
