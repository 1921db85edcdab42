"""link.md, `_lembas/session/deleted`."""

import msgspec
import pytest

from tests.support.linked_hub import LinkedHub


def told(session: str) -> str:
    return (
        '{"jsonrpc":"2.0","method":"_lembas/session/deleted","params":'
        f'{{"sessionId":"{session}"}}}}'
    )


@pytest.mark.spec("_lembas/session/deleted", "deleted: kept while no link is up")
async def test_a_delete_of_this_machine_is_told_on_the_link_now_or_after_the_next_initialize(
    own_hub: LinkedHub,
) -> None:
    hub, install = own_hub, own_hub.install
    first, second, third = [await hub.new() for _ in range(3)]
    done = await install.run("sessions", "delete", first)
    assert (done.returncode, done.stdout.decode()) == (0, f"{first} is deleted\n")
    assert (await hub.client.said("_lembas/session/deleted")).text == told(first)
    await install.kill_hub()
    # its worker is there without a hub: it is ended
    done = await install.run("sessions", "delete", second, third, "--json")
    assert done.returncode == 0, done.stderr
    await install.start_hub()
    client = await hub.linked()
    news = [(await client.said("_lembas/session/deleted")).text for _ in range(2)]
    assert sorted(news) == sorted([told(second), told(third)])
    assert list((install.paths.outbox / "deleted").iterdir()) == []
    listed = await install.run("sessions", "list", "--json")
    assert msgspec.json.decode(listed.stdout) == {"sessions": []}
    again = await install.run("sessions", "delete", first)
    assert again.returncode == 1


@pytest.mark.spec("_lembas/session/deleted")
async def test_a_prune_beside_a_running_hub_is_told_on_the_link_that_is_up(
    own_hub: LinkedHub,
) -> None:
    hub, install = own_hub, own_hub.install
    closed = await hub.new()
    await install.stop()
    await install.start_hub()
    client = await hub.linked()
    params = {"cwd": str(install.project), "mcpServers": []}
    stays = msgspec.json.decode(await client.ask("session/new", params))["sessionId"]
    done = await install.run("sessions", "prune", "--keep", "0", "--json")
    assert [one["session_id"] for one in msgspec.json.decode(done.stdout)["sessions"]] == [closed]
    assert (await client.said("_lembas/session/deleted")).text == told(closed)
    listed = msgspec.json.decode((await install.run("sessions", "list", "--json")).stdout)
    assert [one["session_id"] for one in listed["sessions"]] == [stays]


@pytest.mark.spec("deleted: to a client that said lembas alone")
async def test_a_client_that_is_not_lembas_is_not_told_and_the_next_that_is_is(
    own_hub: LinkedHub,
) -> None:
    hub, install = own_hub, own_hub.install
    session = await hub.new()
    await install.kill_hub()
    assert (await install.run("sessions", "delete", session)).returncode == 0
    await install.start_hub()
    plain = await hub.linked('{"protocolVersion":1}')
    await plain.ask("_lembas/directories", "{}")
    assert plain.told == []
    client = await hub.again()
    assert (await client.said("_lembas/session/deleted")).text == told(session)


async def test_what_the_client_deleted_itself_is_not_told_to_it(hub: LinkedHub) -> None:
    session = await hub.new()
    asked = {"sessionId": session}
    assert await hub.client.ask("_lembas/session/delete", asked) == '{"deleted":true}'
    await hub.client.ask("_lembas/directories", "{}")
    assert [one for one in hub.client.told if "deleted" in one.method] == []
