"""Permission cards through a real link: instance, hub and worker, every way in which a card ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from lembasd.instance.main import Instance, InstanceOptions
from tests.support.daemon import Install
from tests.support.linked_device import Feed, log_in
from tests.support.scripted_model import Reply, ScriptedModel

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]
#: what a loaded machine needs for one turn
TIMEOUT_S = 30.0


class Scene:
    """A person at the instance's API, and a session of the device in manual mode."""

    def __init__(self, install: Install, model: ScriptedModel, person: httpx.AsyncClient) -> None:
        self.install = install
        self.model = model
        self.person = person
        self.session = ""
        self._turns = 0

    async def open(self) -> None:
        asked = {"cwd": str(self.install.project), "mode": "manual"}
        made = await self.person.post("/api/local/sessions", json=asked)
        assert made.status_code == 201, made.text
        self.session = made.json()["session_id"]

    async def prompt(self, *commands: str) -> None:
        """A turn in which the model runs these commands, one a step."""
        self.model.script(*(Reply(calls=[("bash", {"command": one})]) for one in commands))
        self.model.script(Reply(text="done"))
        self._turns += 1
        body = {"text": "go", "turn_id": f"t{self._turns}"}
        sent = await self.person.post(f"/api/local/sessions/{self.session}/prompt", json=body)
        assert sent.status_code == 202, sent.text

    async def answer(self, feed: Feed, option: str, **more: str) -> dict[str, Any]:
        """Answer the next card; its params."""
        card = (await feed.event("session/request_permission"))["params"]
        call = card["toolCall"]["toolCallId"]
        said = await self.person.post(f"/api/local/cards/{call}", json={"option": option, **more})
        assert said.status_code == 200, said.text
        return dict(card)

    async def ended(self, feed: Feed) -> None:
        while (await feed.event("_lembas/event"))["params"]["event"]["type"] != "done":
            pass

    async def outputs(self) -> list[tuple[str, bool]]:
        """What the model was told of its calls so far."""
        answer = await self.person.get(f"/api/local/sessions/{self.session}/history")
        tools = [tool for turn in answer.json()["turns"] for tool in turn.get("tools", [])]
        return [(tool["output"], tool["isError"]) for tool in tools]

    def ran(self) -> list[str]:
        path = self.install.project / "ran"
        return path.read_text().split() if path.exists() else []


@asynccontextmanager
async def scene(install: Install, model: ScriptedModel, **remote: Any) -> AsyncIterator[Scene]:
    model.models = [{"id": "scripted"}]
    install.configure(**remote)
    async with Instance(InstanceOptions(upstream=model.base_url, approve=True)) as instance:
        token = (await log_in(instance)).encode()
        login = ("login", "--token-stdin", "--server", instance.base_url)
        done = await install.run(*login, stdin=token)
        assert done.returncode == 0, done.stderr.decode()
        headers = {"Authorization": f"Bearer {instance.secret}"}
        async with (
            httpx.AsyncClient(
                base_url=instance.base_url, headers=headers, timeout=TIMEOUT_S
            ) as person,
            person.stream("GET", "/api/local/events") as response,
        ):
            await install.start_hub()
            while not (await Feed(response).event("instance/device"))["params"]["linked"]:
                pass
            one = Scene(install, model, person)
            await one.open()
            yield one
        await install.stop()


@asynccontextmanager
async def feed_of(one: Scene) -> AsyncIterator[Feed]:
    async with one.person.stream("GET", "/api/local/events") as response:
        yield Feed(response)


@pytest.fixture
async def install(short_tmp: Any) -> AsyncIterator[Install]:
    async with Install(short_tmp) as one:
        yield one


@pytest.mark.spec(
    "session/request_permission", "card: once", "card: reason", "card: keyed by its call"
)
async def test_once_runs_the_call_and_the_next_is_asked_again(
    install: Install, model: ScriptedModel
) -> None:
    async with scene(install, model) as one, feed_of(one) as feed:
        await one.prompt("echo a >> ran", "echo a >> ran")
        first = await one.answer(feed, "once")
        second = await one.answer(feed, "once")
        await one.ended(feed)
        assert one.ran() == ["a", "a"]
        assert first["toolCall"]["rawInput"] == {"command": "echo a >> ran"}
        assert first["_meta"]["lembas"]["reason"]
        assert first["toolCall"]["toolCallId"] != second["toolCall"]["toolCallId"]


@pytest.mark.spec("card: session", "card: always")
async def test_for_the_session_the_same_call_is_not_asked_about_twice(
    install: Install, model: ScriptedModel
) -> None:
    async with scene(install, model) as one, feed_of(one) as feed:
        await one.prompt("./tool a", "./tool a", "./tool b")
        (install.project / "tool").write_text('#!/bin/sh\necho "$1" >> ran\n')
        (install.project / "tool").chmod(0o755)
        card = await one.answer(feed, "session")
        assert card["_meta"]["lembas"]["always"]
        other = await one.answer(feed, "deny")
        await one.ended(feed)
        assert other["toolCall"]["rawInput"] == {"command": "./tool b"}
        assert one.ran() == ["a", "a"]


@pytest.mark.spec("card: deny", "card: feedback")
async def test_a_denial_runs_nothing_and_its_feedback_is_told(
    install: Install, model: ScriptedModel
) -> None:
    async with scene(install, model) as one, feed_of(one) as feed:
        await one.prompt("echo a >> ran", "echo b >> ran")
        await one.answer(feed, "deny")
        await one.answer(feed, "deny", feedback="use the other file")
        await one.ended(feed)
        (plain, is_error), (told, _) = await one.outputs()
        assert (one.ran(), is_error) == ([], True)
        assert "denied" in plain
        assert "use the other file" in told


@pytest.mark.spec("card: a corrected command")
async def test_a_corrected_command_runs_in_the_place_of_the_one_that_was_asked(
    install: Install, model: ScriptedModel
) -> None:
    async with scene(install, model) as one, feed_of(one) as feed:
        await one.prompt("echo wrong >> ran")
        await one.answer(feed, "once", command="echo right >> ran")
        await one.ended(feed)
        assert one.ran() == ["right"]


@pytest.mark.spec("card: no answer in time is a denial", "_lembas/permission/settled")
async def test_nobody_answering_is_a_denial_and_the_card_is_taken_down(
    install: Install, model: ScriptedModel
) -> None:
    async with scene(install, model, approval_timeout=1) as one, feed_of(one) as feed:
        await one.prompt("echo a >> ran")
        card = (await feed.event("session/request_permission"))["params"]
        settled = (await feed.event("_lembas/permission/settled"))["params"]
        await one.ended(feed)
        assert settled["toolCallId"] == card["toolCall"]["toolCallId"]
        late = await one.person.post(
            f"/api/local/cards/{settled['toolCallId']}", json={"option": "once"}
        )
        assert (late.status_code, one.ran()) == (404, [])


@pytest.mark.spec("card: patient", "_lembas/permission/settled")
async def test_a_card_that_is_answered_at_this_machine_is_settled_on_the_link(
    install: Install, model: ScriptedModel
) -> None:
    async with scene(install, model) as one, feed_of(one) as feed:
        local = await install.client()
        await local.initialize()
        await local.ask("_hub/attach", {"sessionId": one.session})
        await one.prompt("echo a >> ran")
        card = (await feed.event("session/request_permission"))["params"]
        assert card["_meta"]["lembas"]["patient"] is True
        await local.answer_card("once")
        settled = (await feed.event("_lembas/permission/settled"))["params"]
        await one.ended(feed)
        local.hub.close()
        assert settled["toolCallId"] == card["toolCall"]["toolCallId"]
        assert one.ran() == ["a"]


@pytest.mark.spec("card: asked again on the next link")
async def test_a_card_survives_the_hub_and_its_link(install: Install, model: ScriptedModel) -> None:
    async with scene(install, model) as one:
        async with feed_of(one) as feed:
            await one.prompt("echo a >> ran")
            card = (await feed.event("session/request_permission"))["params"]
            await install.kill_hub()
            await install.start_hub()
            again = await one.answer(feed, "once")
            await install.milestones.wait("worker.turn_ended", session_id=one.session)
        assert again["toolCall"]["toolCallId"] == card["toolCall"]["toolCallId"]
        assert one.ran() == ["a"]
