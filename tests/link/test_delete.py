"""link.md, `_lembas/session/delete`."""

import msgspec
import pytest

from tests.support.daemon import gone
from tests.support.linked_hub import UNKNOWN, LinkedHub, named

DELETE = "_lembas/session/delete"


@pytest.mark.spec(
    "capability delete",
    "_lembas/session/delete",
    "delete: idempotent",
    "delete: a running turn is answered cancelled",
)
async def test_delete_stops_what_runs_and_leaves_nothing(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.turn(session, "t1")
    attachments = hub.install.paths.attachments / session
    attachments.mkdir(parents=True)
    (attachments / "a.png").write_bytes(b"x")
    running, _ = await hub.working(session, "t2")
    waiting = hub.prompt(session, "t3")
    workers = (await hub.install.status())["workers"]
    worker = next(one["pid"] for one in workers if one["session_id"] == session)
    first, second = (hub.client.start(DELETE, named(session)) for _ in range(2))
    late = hub.prompt(session, "t4")
    assert await hub.client.answer(first) == '{"deleted":true}'
    assert await hub.client.answer(second) in ('{"deleted":true}', '{"deleted":false}')
    # decisions.md, 4
    assert '"stopReason":"cancelled"' in await hub.client.answer(running)
    assert '"stopReason":"cancelled"' in await hub.client.answer(waiting)
    assert await hub.client.answer(late) == UNKNOWN
    await gone(worker)
    assert list(hub.install.paths.state.rglob(f"*{session}*")) == []
    assert await hub.client.ask(DELETE, named(session)) == '{"deleted":false}'
    assert await hub.client.ask(DELETE, named("ses_" + "0" * 26)) == '{"deleted":false}'
    assert await hub.turn(session, "t5") == UNKNOWN
    assert '"exists":false' in await hub.status(session)


@pytest.mark.spec("delete: which may be", "delete: trust is not asked")
async def test_which_sessions_the_device_deletes(own_hub: LinkedHub) -> None:
    hub, install = own_hub, own_hub.install
    given, other = await hub.new(), await hub.new()
    local = await install.client()
    await local.initialize()
    made = {}
    for where in (hub.project, install.home):
        params = {"cwd": str(where), "mcpServers": []}
        made[where] = (await local.ask("session/new", params))["sessionId"]
    local.hub.close()
    client = await hub.configured(roots=[str(hub.project)], require_trust=True)
    await install.stop()
    await install.start_hub()
    client = await hub.linked()

    async def delete(session: str) -> str:
        return await client.ask(DELETE, named(session))

    # one the client was ever given, and one inside the roots, trusted or not
    assert await delete(given) == '{"deleted":true}'
    assert await delete(made[hub.project]) == '{"deleted":true}'
    refused = msgspec.json.decode(await delete(made[install.home]))
    assert refused == {
        "code": -32602,
        "message": f"this session is of {install.home}, outside the folders this device allows; "
        "delete it there with `lembas sessions delete`",
        "data": {"reason": "folder"},
    }
    # the given one, whatever the limits are by now
    client = await hub.configured(enabled=False)
    refused = msgspec.json.decode(await delete(made[install.home]))
    assert refused["data"] == {"reason": "remote_off"}
    assert await delete(other) == '{"deleted":true}'
