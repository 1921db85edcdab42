"""link.md, `_lembas/session/status`."""

import os
import signal

import pytest

from tests.support.daemon import gone
from tests.support.linked_hub import LinkedHub
from tests.support.sessions import worker_pid


def status(session: str, held: str, *, busy: bool = False, title: str = "", more: str = "") -> str:
    return (
        f'{{"sessionId":"{session}","exists":true,"held":"{held}","busy":{"true" if busy else "false"},'
        f'"title":"{title}","queued":[]{more}}}'
    )


@pytest.mark.spec(
    "_lembas/session/status", "status: held here and none", "status: turnId, queued, lastTurnId"
)
async def test_it_says_who_holds_the_session_and_how_its_turns_stand(own_hub: LinkedHub) -> None:
    hub = own_hub
    session = await hub.new()
    assert await hub.status(session) == status(session, "here")
    running, hold = await hub.working(session, "t1")
    for turn in ("t2", "t3"):
        hub.prompt(session, turn)
    assert await hub.status(session) == (
        f'{{"sessionId":"{session}","exists":true,"held":"here","busy":true,"title":"say t1",'
        '"queued":["t2","t3"],"turnId":"t1"}'
    )
    hold.set()
    await hub.client.answer(running)
    await hub.client.event(session, "done", '"turnId":"t3"')
    await hub.client.event(session, "task", '"state":"end"', '"turnId":"t3"')
    last = ',"lastTurnId":"t3"'
    assert await hub.status(session) == status(session, "here", title="say t1", more=last)
    await hub.install.stop()
    await hub.install.start_hub()
    await hub.linked()
    assert await hub.status(session) == status(session, "none", title="say t1", more=last)
    assert (await hub.install.status())["workers"] == []


async def test_an_unknown_session_does_not_exist(hub: LinkedHub) -> None:
    for session in ("ses_" + "0" * 26, "../../etc"):
        assert await hub.status(session) == (
            f'{{"sessionId":"{session}","exists":false,"held":"none","busy":false,"title":"","queued":[]}}'
        )


@pytest.mark.spec("status: reattaching")
async def test_reattaching_after_a_dropped_link_goes_as_the_turn_stands(own_hub: LinkedHub) -> None:
    hub = own_hub
    running, queued, done = await hub.new(), await hub.new(), await hub.new()
    await hub.turn(done, "t1")
    _, hold = await hub.working(running, "t1")
    _, other = await hub.working(queued, "t1")
    hub.prompt(queued, "t2")
    client = await hub.again()

    # one that runs is followed
    assert '"busy":true,' in (text := await hub.status(running))
    assert '"turnId":"t1"' in text
    hold.set()
    assert (await client.event(running, "done"))["turnId"] == "t1"
    # one that waits is followed when it starts
    assert '"queued":["t2"]' in await hub.status(queued)
    other.set()
    assert (await client.event(queued, "task", '"turnId":"t2"'))["state"] == "start"
    assert (await client.event(queued, "done", '"turnId":"t2"'))["stopReason"] == "end_turn"
    # one that is done is taken from history
    assert '"lastTurnId":"t1"' in await hub.status(done)
    assert (await hub.history(done))["turns"][0]["turnId"] == "t1"
    # one that the device does not know is sent again
    assert '"stopReason":"end_turn"' in await hub.turn(done, "t2")
    asked = len(hub.model.requests)
    assert '"stopReason":"end_turn"' in await hub.turn(done, "t2")
    assert len(hub.model.requests) == asked


async def test_after_a_death_of_the_worker_its_turn_is_the_last_one(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.working(session, "t1")
    pid = await worker_pid(hub.install, session)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    error = await hub.turn(session, "t1")
    assert '"reason":"worker_ended"' in error
    assert '"lastTurnId":"t1"' in await hub.status(session)
