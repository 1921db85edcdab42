"""link.md, "session/set_mode"."""

import pytest

from tests.support.linked_hub import LinkedHub, named


@pytest.mark.spec("session/set_mode", "event mode", "event setting", "update current_mode_update")
async def test_the_mode_is_set_and_told(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    await hub.turn(session, "t1")
    hub.client.told.clear()
    assert await hub.client.ask("session/set_mode", named(session, modeId="plan")) == "{}"
    told = [(await hub.client.said(session)).text for _ in range(3)]
    event = (
        f'{{"jsonrpc":"2.0","method":"_lembas/event","params":{{"sessionId":"{session}","event":'
    )
    update = (
        f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":'
    )
    assert told == [
        event + '{"type":"mode","mode":"plan"}}}',
        update + '{"sessionUpdate":"current_mode_update","currentModeId":"plan"}}}',
        event + '{"type":"setting","key":"mode","value":"plan"}}}',
    ]
    # the mode it has is no change
    assert await hub.client.ask("session/set_mode", named(session, modeId="plan")) == "{}"
    await hub.status(session)
    assert hub.client.told == []
    assert await hub.client.ask("session/set_mode", named(session, modeId="wild")) == (
        '{"code":-32602,"message":"\'wild\' is no mode; choose one of plan, manual, edit, auto"}'
    )


@pytest.mark.spec("session/set_mode: lowered")
async def test_the_mode_is_lowered_to_what_the_device_allows(own_hub: LinkedHub) -> None:
    session = await own_hub.new(mode="plan")
    client = await own_hub.configured(max_mode="edit")
    assert await client.ask("session/set_mode", named(session, modeId="auto")) == "{}"
    assert await client.event(session, "mode") == {"type": "mode", "mode": "edit"}
    # as it is at that moment: the next prompt of a session that is wider than it is lowered too
    client = await own_hub.configured(max_mode="manual")
    await own_hub.turn(session, "t1")
    assert await client.event(session, "mode") == {"type": "mode", "mode": "manual"}


async def test_a_mode_that_is_set_before_a_prompt_holds_for_it(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    for number in range(5):
        for mode in ("manual", "plan"):
            hub.client.start("session/set_mode", named(session, modeId=mode))
            asked = hub.prompt(session, f"{mode}{number}")
            await hub.client.answer(asked)
            told = [one.text for one in hub.client.told if session in one.text]
            at = next(n for n, text in enumerate(told) if f'"turnId":"{mode}{number}"' in text)
            before = [text for text in told[:at] if '"type":"mode"' in text]
            assert not before or f'"mode":"{mode}"' in before[-1]
