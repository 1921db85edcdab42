"""Clients of this machine on one session (docs/protocol.md, "Local clients")."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Client
from tests.support.linked_hub import LinkedHub, named
from tests.support.scripted_model import Reply


@asynccontextmanager
async def local_client(hub: LinkedHub) -> AsyncIterator[Client]:
    client = await hub.install.client()
    await client.initialize()
    try:
        yield client
    finally:
        client.hub.close()


async def opened(hub: LinkedHub, client: Client, mode: str = "manual") -> str:
    """A session that the client makes."""
    asked = {"cwd": str(hub.project), "mcpServers": [], "_meta": {"mode": mode}}
    return str((await client.ask("session/new", asked))["sessionId"])


def prompt(client: Client, session: str, text: str, turn_id: str) -> "asyncio.Future[bytes]":
    blocks = [{"type": "text", "text": text}]
    meta = {"_meta": {"lembas": {"turnId": turn_id}}}
    return client.hub.start("session/prompt", named(session, prompt=blocks, **meta))


async def test_who_joins_in_the_middle_of_a_turn_is_given_all_that_there_is(hub: LinkedHub) -> None:
    hold = asyncio.Event()
    async with local_client(hub) as first, local_client(hub) as second:
        session = await opened(hub, first)
        hub.model.script(Reply("early"))
        await prompt(first, session, "begin", "t1")
        hub.model.script(Reply(text="thinking", hold=hold))
        turn = prompt(first, session, "go on", "t2")
        await first.event("text", text="king")
        queued = prompt(first, session, "and then", "t3")
        await first.told("_hub/queue")

        joined = await second.ask("_hub/attach", named(session))
        snapshot = joined["snapshot"]
        assert [one["text"] for one in snapshot["turns"]] == ["begin", "early", "go on"]
        assert [(one["type"], one.get("text")) for one in snapshot["live"]] == [
            ("step", None),
            ("text", "thinking"),
        ]
        assert snapshot["queued"] == [{"turnId": "t3", "text": "and then"}]
        assert (snapshot["turnId"], snapshot["lastTurnId"]) == ("t2", "t1")
        about = ("title", "root", "mode", "model", "effort", "shared", "given", "plan", "cards")
        assert [snapshot[one] for one in about] == [
            "begin",
            str(hub.project),
            "manual",
            "plain",
            "default",
            False,
            False,
            None,
            [],
        ]
        assert joined["seq"] == first.hub.seen(session)

        hub.model.script(Reply("late"))
        hold.set()
        await asyncio.gather(turn, queued)
        assert (await second.event("prompt"))["text"] == "and then"
        assert (await second.told("_hub/queue"))["queued"] == []
        assert (await second.event("text"))["text"] == "la"


async def test_who_comes_back_is_given_what_it_missed_and_else_a_snapshot(hub: LinkedHub) -> None:
    async with local_client(hub) as first:
        session = await opened(hub, first)
        async with local_client(hub) as second:
            await second.ask("_hub/attach", named(session))
            hub.model.script(Reply("one"), Reply("two"))
            await prompt(first, session, "count", "t1")
            await second.event("done")
            seen = second.hub.seen(session)
        await prompt(first, session, "go on", "t2")
        async with local_client(hub) as again:
            joined = await again.ask("_hub/attach", named(session, since=seen))
            assert joined == {"sessionId": session, "seq": first.hub.seen(session)}
            assert (await again.event("prompt"))["text"] == "go on"
            assert (await again.event("text"))["text"] == "two"
            for since in ("1:99999", "0:1", "nonsense"):
                joined = await again.ask("_hub/attach", named(session, since=since))
                assert [one["text"] for one in joined["snapshot"]["turns"]] == [
                    "count",
                    "one",
                    "go on",
                    "two",
                ]


async def test_a_client_that_is_no_lembas_is_given_acp_alone_of_what_it_missed(
    hub: LinkedHub,
) -> None:
    async with local_client(hub) as first:
        session = await opened(hub, first)
        hub.model.script(Reply("one"))
        await prompt(first, session, "count", "t1")
        plain = await hub.install.client()
        await plain.ask("initialize", {"protocolVersion": 1})
        await plain.ask("_hub/attach", named(session, since="1:0"))
        hub.model.script(Reply("two"))
        await prompt(first, session, "count", "t2")
        said: list[Any] = []
        while len([one for one in said if one == "session/update"]) < 3:
            said.append((await asyncio.wait_for(plain.messages.get(), 20)).method)
        plain.hub.close()
        # two texts, and the commands
        assert said == ["session/update"] * 3


async def test_a_card_waits_for_whoever_joins_and_the_call_that_runs_is_told(
    hub: LinkedHub,
) -> None:
    async with local_client(hub) as first, local_client(hub) as second:
        session = await opened(hub, first)
        hub.model.script(
            Reply(
                calls=[("bash", {"command": "touch ran; while ! test -e go; do sleep 0.05; done"})]
            )
        )
        hub.model.script(Reply("done"))
        turn = prompt(first, session, "wait", "t1")
        async with asyncio.timeout(20):
            await first.cards.get()
        joined = await second.ask("_hub/attach", named(session))
        card = await second.answer_card("once")
        assert joined["snapshot"]["cards"] == [card["toolCall"]["toolCallId"]]
        settled = await first.told("_lembas/permission/settled")
        assert settled == {
            "sessionId": session,
            "toolCallId": card["toolCall"]["toolCallId"],
            "_meta": {"lembas": {"by": "terminal"}},
        }
        joined = await second.ask("_hub/attach", named(session))
        live = {one["type"]: one for one in joined["snapshot"]["live"]}
        assert set(live) <= {"step", "tool_start", "tool_output"}
        assert live["tool_start"]["toolCallId"] == card["toolCall"]["toolCallId"]
        (hub.project / "go").touch()
        await turn
        snapshot = (await second.ask("_hub/attach", named(session)))["snapshot"]
        assert snapshot["live"] == []
        assert snapshot["usage"]["type"] == "usage"
        (hub.project / "go").unlink()


async def test_the_session_that_nobody_knows_is_attached_to_by_nobody(hub: LinkedHub) -> None:
    async with local_client(hub) as client:
        with pytest.raises(RequestRefused, match="unknown session"):
            await client.ask("_hub/attach", named("ses_" + "z" * 26))
