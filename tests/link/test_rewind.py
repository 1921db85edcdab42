"""link.md, `_lembas/session/rewind`."""

import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, named
from tests.support.scripted_model import Reply


async def rewind(hub: LinkedHub, session: str, turn: str) -> str:
    return await hub.client.ask("_lembas/session/rewind", named(session, turnId=turn))


@pytest.mark.spec("capability rewind", "_lembas/session/rewind", "rewind: files stay")
async def test_the_turn_and_every_later_one_leave_model_and_history_and_files_stay(
    own_hub: LinkedHub,
) -> None:
    hub = own_hub
    session = await hub.new()
    await hub.turn(session, "t1")
    hub.model.script(Reply(calls=[("write", {"path": "made", "content": "x\n"})]))
    for turn in ("t2", "t3"):
        await hub.turn(session, turn)

    assert await rewind(hub, session, "t9") == (
        '{"code":-32602,"message":"the session has no such turn; name one of its history"}'
    )
    assert await rewind(hub, session, "t2") == '{"reverted":2}'
    assert await rewind(hub, session, "t2") == '{"reverted":0}'
    assert await rewind(hub, session, "t3") == '{"reverted":0}'
    assert (hub.project / "made").read_text() == "x\n"
    await hub.turn(session, "t4")
    said = [message["content"] for message in hub.messages()[1:]]
    assert said == ["say t1", "done", "say t4"]
    await hub.install.stop()
    await hub.install.start_hub()
    await hub.linked()
    users = [one for one in (await hub.history(session))["turns"] if one["role"] == "user"]
    assert [turn["text"] for turn in users] == ["say t1", "say t4"]
    # its answer is kept all the same: no id runs twice
    assert '"stopReason":"end_turn"' in await hub.turn(session, "t2")
    await hub.turn(session, "t5")
    said = [message["content"] for message in hub.messages()[1:]]
    assert said == ["say t1", "done", "say t4", "done", "say t5"]
    assert await rewind(hub, "ses_" + "0" * 26, "t1") == UNKNOWN


@pytest.mark.spec("rewind: refused while the session works")
async def test_it_is_refused_while_the_session_works(hub: LinkedHub) -> None:
    session = await hub.new()
    running, hold = await hub.working(session, "t1")
    assert await rewind(hub, session, "t1") == (
        '{"code":-32602,"message":"the session works; ask again when it is done"}'
    )
    hold.set()
    await hub.client.answer(running)
    assert await rewind(hub, session, "t1") == '{"reverted":1}'


@pytest.mark.spec("rewind: a turn in a summary stays in it")
async def test_a_turn_that_was_summed_up_stays_in_the_summary(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.turn(session, "t1")
    hub.model.script(Reply("the bread was baked"))
    await hub.client.value("_lembas/session/compact", named(session))
    await hub.turn(session, "t2")
    await rewind(hub, session, "t1")
    await hub.turn(session, "t3")
    said = str(hub.messages())
    assert "the bread was baked" in said
    assert "say t2" not in said
    users = [one for one in (await hub.history(session))["turns"] if one["role"] == "user"]
    assert [one["text"] for one in users] == ["say t3"]
