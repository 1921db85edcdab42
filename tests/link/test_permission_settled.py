"""link.md, `_lembas/permission/settled`: a card is taken down when it is answered elsewhere, or waited for no more."""

from typing import Any

import msgspec
import pytest

from tests.support.linked_hub import LinkedHub, call_of, linked_hub, named
from tests.support.scripted_model import Reply


@pytest.mark.spec("card: no answer in time is a denial", "_lembas/permission/settled")
async def test_nobody_answering_is_a_denial_and_the_card_is_taken_down() -> None:
    async with linked_hub(approval_timeout=1) as hub:
        session, turn = await hub.commands("echo a >> ran")
        card = await hub.client.card(session)
        settled = await hub.client.said("_lembas/permission/settled")
        assert settled.text == (
            '{"jsonrpc":"2.0","method":"_lembas/permission/settled","params":'
            f'{{"sessionId":"{session}","toolCallId":"{call_of(card)}"}}}}'
        )
        assert '"stopReason":"end_turn"' in await hub.client.answer(turn)
        assert (await hub.client.event(session, "tool_denied"))["by"] == "timeout"
        hub.client.allow(card)
        await hub.status(session)
        assert hub.ran("ran") == []


@pytest.mark.spec("card: patient", "_lembas/permission/settled")
async def test_a_card_that_is_answered_at_this_machine_is_patient_and_settled(
    hub: LinkedHub,
) -> None:
    session = await hub.new(mode="manual")
    local = await hub.install.client()
    await local.initialize()
    await local.ask("_hub/attach", named(session))
    hub.model.script(Reply(calls=[("bash", {"command": "echo a >> local"})]))
    turn = hub.prompt(session, "t1")
    card = await hub.client.card(session)
    assert card.params["_meta"]["lembas"]["patient"] is True
    await local.answer_card("once")
    settled = await hub.client.said("_lembas/permission/settled")
    assert settled.params == {"sessionId": session, "toolCallId": call_of(card)}
    await hub.client.answer(turn)
    local.hub.close()
    assert hub.ran("local") == ["a"]


@pytest.mark.spec("_lembas/permission/settled", "card: a cancelled turn takes its card down")
async def test_a_cancelled_turn_takes_its_card_down(hub: LinkedHub) -> None:
    session, turn = await hub.commands("echo a >> gone")
    card = await hub.client.card(session)
    hub.client.notify("session/cancel", named(session))
    answer: dict[str, Any] = msgspec.json.decode(await hub.client.answer(turn))
    assert answer["stopReason"] == "cancelled"
    settled = await hub.client.said("_lembas/permission/settled")
    assert settled.params == {"sessionId": session, "toolCallId": call_of(card)}
    assert hub.ran("gone") == []
