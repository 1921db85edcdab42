"""Two terminals and the pocket instance answer one card in the same moment: one of them decides, and all are told.

Short here; `LEMBASD_CARD_RACES=200` (or `make races`) asks for more.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx
import msgspec
import pytest

from lembasd.instance.main import Instance, InstanceOptions
from lembasd.protocol.jsonrpc import Message
from lembasd.store.journal import read
from lembasd.store.records import ToolResult
from tests.support.daemon import Client, Install
from tests.support.linked_device import Feed, log_in
from tests.support.scripted_model import Reply, ScriptedModel

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

RACES: Final = int(os.environ.get("LEMBASD_CARD_RACES", "8"))
#: what each of the three answers with: told apart by what the command then did
WAYS: Final = ("first", "second", "instance")


@pytest.fixture
async def instance(model: ScriptedModel) -> AsyncIterator[Instance]:
    model.models = [{"id": "scripted"}]
    options = InstanceOptions(approve=True, upstream=model.base_url)
    async with Instance(options) as running:
        yield running


@pytest.fixture
async def install(zygote_install: Install, instance: Instance) -> Install:
    zygote_install.log_in(instance.base_url, token=await log_in(instance))
    await zygote_install.start_hub()
    return zygote_install


def corrected(way: str) -> dict[str, Any]:
    """An answer that allows the call once, with a command that says whose answer it was."""
    return {
        "outcome": {"outcome": "selected", "optionId": "once"},
        "_meta": {"lembas": {"command": f"echo {way}"}},
    }


async def card(client: Client) -> Message:
    async with asyncio.timeout(20):
        return await client.cards.get()


async def test_a_card_that_all_answer_at_once_has_one_decision_and_all_are_told(
    install: Install, instance: Instance, model: ScriptedModel
) -> None:
    chance = random.Random(7)
    async with AsyncExitStack() as stack:
        first, second = [await install.client() for _ in range(2)]
        headers = {"Authorization": f"Bearer {instance.secret}"}
        person = await stack.enter_async_context(
            httpx.AsyncClient(base_url=instance.base_url, headers=headers)
        )
        response = await stack.enter_async_context(person.stream("GET", "/api/local/events"))
        feed = Feed(response)
        for client in (first, second):
            stack.callback(client.hub.close)
            await client.initialize()
        asked = {"cwd": str(install.project), "mcpServers": [], "_meta": {"mode": "manual"}}
        session = str((await first.ask("session/new", asked))["sessionId"])
        await second.ask("_hub/attach", {"sessionId": session})
        await first.ask("_hub/share", {"sessionId": session, "shared": True})
        await feed.event("_lembas/session/announce")
        winners = []
        for number in range(RACES):
            model.script(Reply(calls=[("bash", {"command": f"touch f{number}"})]), Reply("done"))
            blocks = [{"type": "text", "text": f"go {number}"}]
            turn = first.hub.start("session/prompt", {"sessionId": session, "prompt": blocks})
            cards = [await card(first), await card(second)]
            shown = (await feed.event("session/request_permission"))["params"]
            call = shown["toolCall"]["toolCallId"]

            async def at_the_instance(call: str = call) -> int:
                body = {"option": "once", "command": "echo instance", "session_id": session}
                answered = await person.post(f"/api/local/cards/{call}", json=body)
                return answered.status_code

            posting = asyncio.create_task(at_the_instance())
            # the page's answer takes a way of its own: now and then it is given a lead
            for _ in range(chance.choice((0, 0, 1, 3, 10, 30))):
                await asyncio.sleep(0)
            replies = [(first, cards[0], "first"), (second, cards[1], "second")]
            chance.shuffle(replies)
            for client, asked_here, way in replies:
                client.hub.reply(asked_here, corrected(way))
            await asyncio.wait_for(turn, 20)
            # 404: it was taken down before the page's answer came
            assert await posting in (200, 404)
            winners.append(await told(first, second, call))
            await feed_end(feed)
            assert (await person.get("/api/local/cards")).json() == {"cards": []}
        outputs = [
            one.output
            for one in read(install.paths, session).records
            if isinstance(one, ToolResult)
        ]
    assert len(outputs) == RACES
    decided = [next(way for way in WAYS if way in output) for output in outputs]
    assert RACES < 100 or set(decided) == set(WAYS), "the race was none"
    for way, by in zip(decided, winners, strict=True):
        # whoever did not answer is told who did
        expected = {
            "first": (None, "terminal"),
            "second": ("terminal", None),
            "instance": ("instance", "instance"),
        }
        assert by == expected[way]
    assert sorted(path.name for path in install.project.iterdir()) == []


async def told(first: Client, second: Client, call: str) -> tuple[str | None, str | None]:
    """By whom each of them was told that the card was answered, in this turn; None: it was not told."""
    found: list[str | None] = []
    for client in (first, second):
        by: list[str] = []
        async with asyncio.timeout(20):
            while True:
                message = await client.messages.get()
                params = msgspec.json.decode(message.params)
                if message.method == "_lembas/permission/settled":
                    assert params["toolCallId"] == call
                    by.append(params["_meta"]["lembas"]["by"])
                event = params.get("event", {})
                if (event.get("type"), event.get("state")) == ("task", "end"):
                    break
        assert len(by) <= 1
        found.append(by[0] if by else None)
    return found[0], found[1]


async def feed_end(feed: Feed) -> None:
    """Read on to the end of the turn, as the page sees it."""
    while True:
        event = (await feed.event("_lembas/event"))["params"]["event"]
        if event["type"] == "task" and event["state"] == "end":
            return
