"""link.md, "session/cancel"."""

import pytest

from tests.support.linked_hub import LinkedHub, named
from tests.support.scripted_model import Reply


def cancelled(turn: str) -> str:
    return f'{{"stopReason":"cancelled","_meta":{{"lembas":{{"turnId":"{turn}"}}}}}}'


@pytest.mark.spec(
    "session/cancel", "result: stopReason cancelled", "cancel: the text so far is kept"
)
async def test_it_stops_the_running_turn_and_the_next_one_starts(hub: LinkedHub) -> None:
    session = await hub.new()
    running, _ = await hub.working(session, "t1")
    waiting = hub.prompt(session, "t2")
    hub.client.notify("session/cancel", named(session))
    assert await hub.client.answer(running) == cancelled("t1")
    assert '"stopReason":"end_turn"' in await hub.client.answer(waiting)
    # the text so far is kept (decisions.md, 18), and the answer of its id
    turns = (await hub.history(session))["turns"]
    assert turns[1] == {"role": "assistant", "text": "thinking", "reasoning": "", "tools": []}
    assert await hub.turn(session, "t1") == cancelled("t1")
    done = await hub.client.event(session, "done", '"turnId":"t1"')
    assert done == {"type": "done", "turnId": "t1", "stopReason": "cancelled"}


async def test_what_runs_for_the_turn_is_ended(hub: LinkedHub) -> None:
    session = await hub.new()
    hub.model.script(Reply(calls=[("bash", {"command": "echo go; sleep 600"})]))
    running = hub.prompt(session, "t1")
    await hub.client.event(session, "tool_start")
    hub.client.notify("session/cancel", named(session))
    assert await hub.client.answer(running) == cancelled("t1")
    left = [one.cmdline() for one in hub.install.processes()]
    assert [command for command in left if "600" in command] == []


async def test_where_nothing_runs_there_is_nothing_to_stop(hub: LinkedHub) -> None:
    session = await hub.new()
    for name in (session, "ses_" + "0" * 26):
        hub.client.notify("session/cancel", named(name))
    assert '"stopReason":"end_turn"' in await hub.turn(session, "t1")
    assert [one for one in hub.client.told if "0" * 26 in one.text] == []
