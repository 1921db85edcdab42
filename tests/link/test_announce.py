"""A session of this machine that is shown to the instance (link.md, announce, left, shared sessions)."""

import msgspec
import pytest

from lembasd.protocol.errors import RequestRefused
from tests.link.test_local_clients import local_client, opened, prompt
from tests.support.linked_hub import LinkedHub, call_of, named
from tests.support.scripted_model import Reply


def announced(hub: LinkedHub, session: str, title: str = "", *, busy: bool = False) -> str:
    return (
        '{"jsonrpc":"2.0","method":"_lembas/session/announce","params":{'
        f'"sessionId":"{session}","cwd":"{hub.project}","title":"{title}","model":"plain",'
        f'"instance":true,"mode":"manual","effort":"default","busy":{str(busy).lower()},'
        '"origin":"terminal"}}'
    )


def left(session: str, *, available: bool) -> str:
    return (
        '{"jsonrpc":"2.0","method":"_lembas/session/left","params":{'
        f'"sessionId":"{session}","available":{str(available).lower()}}}}}'
    )


@pytest.mark.spec("_lembas/session/announce", "_lembas/session/left")
async def test_a_session_is_announced_when_it_is_shared_and_left_when_nobody_is_there(
    hub: LinkedHub,
) -> None:
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal)
        assert await terminal.ask("_hub/share", named(session, shared=True)) == {"shared": True}
        assert (await hub.client.said("session/announce")).text == announced(hub, session)
        assert (await hub.client.update(session, "available_commands_update"))["availableCommands"]
        # once is enough
        await terminal.ask("_hub/share", named(session, shared=True))
        hub.model.script(Reply("one"))
        await prompt(terminal, session, "count", "t1")
        assert (await hub.client.event(session, "prompt"))["turnId"] == "t1"
        assert (await hub.client.event(session, "task", '"start"'))["turnId"] == "t1"
        snapshot = (await terminal.ask("_hub/attach", named(session)))["snapshot"]
        assert (snapshot["shared"], snapshot["given"]) == (True, True)
        assert [one for one in hub.client.told if "announce" in one.method] == []
    assert (await hub.client.said("session/left")).text == left(session, available=True)
    # the service goes on with it
    hub.model.script(Reply("two"))
    assert await hub.client.answer(hub.prompt(session, "t2")) == (
        '{"stopReason":"end_turn","_meta":{"lembas":{"turnId":"t2"}}}'
    )
    turns = (await hub.history(session))["turns"]
    assert [one.get("turnId") for one in turns if one["role"] == "user"] == ["t1", "t2"]
    # and back to a terminal: it is shared as before
    async with local_client(hub) as terminal:
        looked = await terminal.ask("_hub/attach", named(session, since="1:0"))
        assert looked["sessionId"] == session


@pytest.mark.spec("_lembas/session/announce")
async def test_a_shared_session_is_announced_on_every_link(own_hub: LinkedHub) -> None:
    hub = own_hub
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal)
        await terminal.ask("_hub/share", named(session, shared=True))
        await hub.client.said("session/announce")
        client = await hub.again()
        assert (await client.said("session/announce")).text == announced(hub, session)
        # no folder is allowed any more: the terminal's session stays shared, and nobody could open it
        client = await hub.configured(roots=[])
        assert (await client.said("session/announce")).text == announced(hub, session)
        hub.model.script(Reply("yes"))
        answer = await client.answer(hub.prompt(session, "t1"))
        assert '"stopReason":"end_turn"' in answer
    assert (await client.said("session/left")).text == left(session, available=False)
    refused = msgspec.json.decode(await client.answer(hub.prompt(session, "t2")))
    assert refused["code"] == -32602


@pytest.mark.spec("_lembas/session/announce")
async def test_the_limits_hold_for_what_the_web_asks_of_a_shared_session(
    own_hub: LinkedHub,
) -> None:
    hub = own_hub
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal, mode="auto")
        await terminal.ask("_hub/share", named(session, shared=True))
        await hub.client.said("session/announce")
        client = await hub.configured(max_mode="manual")
        await client.said("session/announce")
        hub.model.script(Reply(calls=[("bash", {"command": "touch made"})]), Reply("so"))
        turn = hub.prompt(session, "t1")
        card = await client.card(session)
        assert card.params["_meta"]["lembas"]["patient"] is True
        params = await terminal.answer_card("deny")
        assert params["toolCall"]["toolCallId"] == call_of(card)
        settled = await client.said("permission/settled")
        assert settled.params == {"sessionId": session, "toolCallId": call_of(card)}
        await client.answer(turn)
        client = await hub.configured(enabled=False)
        refused = msgspec.json.decode(await client.answer(hub.prompt(session, "t2")))
        assert (refused["code"], refused["data"]) == (-32602, {"reason": "remote_off"})


@pytest.mark.spec("_lembas/session/left")
async def test_what_is_shared_no_more_is_told_and_then_nothing_of_it(hub: LinkedHub) -> None:
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal)
        await terminal.ask("_hub/share", named(session, shared=True))
        await hub.client.said("session/announce")
        assert await terminal.ask("_hub/share", named(session, shared=False)) == {"shared": False}
        assert (await hub.client.said("session/left")).text == left(session, available=False)
        hub.client.told.clear()
        hub.model.script(Reply("one"))
        await prompt(terminal, session, "count", "t1")
        await hub.client.ask("_lembas/directories", "{}")
        assert [one.text for one in hub.client.told if session in one.text] == []
        snapshot = (await terminal.ask("_hub/attach", named(session)))["snapshot"]
        assert (snapshot["shared"], snapshot["given"]) == (False, False)


async def test_the_setting_shares_all_or_none(own_hub: LinkedHub) -> None:
    hub = own_hub
    config = hub.install.paths.config_file
    before = config.read_text()
    config.write_text(f"share: always\n{before}")
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal)
        assert (await hub.client.said("session/announce")).text == announced(hub, session)
    assert (await hub.client.said("session/left")).text == left(session, available=True)
    config.write_text(f"share: never\n{before}")
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal)
        with pytest.raises(RequestRefused, match="lembas config set share ask"):
            await terminal.ask("_hub/share", named(session, shared=True))


async def test_a_session_that_nobody_has_open_is_shared_by_a_command(hub: LinkedHub) -> None:
    async with local_client(hub) as terminal:
        session = await opened(hub, terminal)
    async with local_client(hub) as command:
        await command.ask("_hub/share", named(session, shared=True))
    assert (await hub.client.said("session/announce")).text == announced(hub, session)
