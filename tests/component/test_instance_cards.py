"""Cards, events and terminals of a linked device, through the person's API."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from lembasd.instance.main import Instance, InstanceOptions
from tests.support.linked_device import Feed, LinkedDevice, log_in


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


@pytest.fixture
async def person(instance: Instance) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {instance.secret}"}
    async with httpx.AsyncClient(base_url=instance.base_url, headers=headers) as client:
        yield client


# ── cards ───────────────────────────────────────────────────────────────────────────────────────

CARD = {
    "sessionId": "ses_a",
    "toolCall": {"toolCallId": "call_1", "title": "bash: ls", "rawInput": {"command": "ls"}},
    "options": [{"optionId": "once", "name": "Once"}, {"optionId": "deny", "name": "Deny"}],
    "_meta": {"lembas": {"reason": "it runs a command"}},
}


async def asked(
    person: httpx.AsyncClient, device: LinkedDevice, response: httpx.Response, card_id: str
) -> list[dict[str, Any]]:
    """The cards, once the device's has come."""
    await device.send(id=card_id, method="session/request_permission", params=CARD)
    await Feed(response).event("session/request_permission")
    cards: list[dict[str, Any]] = (await person.get("/api/local/cards")).json()["cards"]
    return cards


async def test_a_card_is_shown_and_answered_once(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        [card] = await asked(person, device, response, "card:1")
        wrong = await person.post("/api/local/cards/call_1", json={"option": "session"})
        body = {"option": "once", "command": "ls -l"}
        right = await person.post("/api/local/cards/call_1", json=body)
        late = await person.post("/api/local/cards/call_1", json=body)
        answer = await device.receive()
    assert (card["tool_call_id"], card["title"], card["params"]) == ("call_1", "bash: ls", CARD)
    assert [one.status_code for one in (wrong, right, late)] == [422, 200, 404]
    assert answer == {
        "jsonrpc": "2.0",
        "id": "card:1",
        "result": {
            "outcome": {"outcome": "selected", "optionId": "once"},
            "_meta": {"lembas": {"command": "ls -l"}},
        },
    }


async def test_a_card_that_was_settled_elsewhere_is_taken_down(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        await device.send(id="card:1", method="session/request_permission", params=CARD)
        settled = {"sessionId": "ses_a", "toolCallId": "call_1"}
        await device.notify("_lembas/permission/settled", settled)
        await Feed(response).event("_lembas/permission/settled")
        assert (await person.get("/api/local/cards")).json() == {"cards": []}


async def test_cards_go_with_their_link_and_come_again_with_the_next(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with person.stream("GET", "/api/local/events") as response:
        feed = Feed(response)
        async with LinkedDevice(instance, token) as device:
            await device.send(id="card:1", method="session/request_permission", params=CARD)
            await feed.event("session/request_permission")
        while (await feed.event("instance/device"))["params"]["linked"]:
            pass
        gone = (await person.get("/api/local/cards")).json()
    async with (
        LinkedDevice(instance, token) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        [card] = await asked(person, device, response, "card:2")
    assert (gone, card["tool_call_id"]) == ({"cards": []}, "call_1")


async def test_a_request_that_the_instance_does_not_know_is_refused(instance: Instance) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await device.send(id=7, method="_lembas/question", params={"sessionId": "ses_a"})
        answer = await device.receive()
    assert (answer["id"], answer["error"]["code"]) == (7, -32601)


# ── events ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_reader_that_was_away_goes_on_where_it_was(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        async with person.stream("GET", "/api/local/events?session=ses_a") as response:
            update = {"sessionId": "ses_a", "update": {"number": 1}}
            await device.notify("session/update", {**update, "sessionId": "ses_b"})
            await device.notify("session/update", update)
            first = await Feed(response).event("session/update")
        await device.notify("session/update", {"sessionId": "ses_a", "update": {"number": 2}})
        resumed = {"Last-Event-ID": str(first["n"])}  # as a browser does by itself
        async with person.stream("GET", "/api/local/events", headers=resumed) as response:
            second = await Feed(response).event("session/update")
    assert first == {
        "n": first["n"],
        "session_id": "ses_a",
        "method": "session/update",
        "params": update,
    }
    assert (second["n"], second["params"]["update"]) == (first["n"] + 1, {"number": 2})


async def test_a_reader_of_another_life_of_the_instance_is_told_of_the_gap(
    person: httpx.AsyncClient,
) -> None:
    headers = {"Last-Event-ID": "4711"}
    async with person.stream("GET", "/api/local/events", headers=headers) as response:
        assert (await Feed(response).event("gap"))["params"] == {}


# ── terminals ───────────────────────────────────────────────────────────────────────────────────


async def test_a_terminal_opens_is_typed_into_and_ends(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    typed = base64.b64encode(b"ls\r").decode()
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        asking = asyncio.create_task(person.post("/api/local/terminals", json={"cwd": "/w"}))
        request = await device.expect("_lembas/terminal/open")
        # a quick shell: its prompt is there before anybody has read that it opened
        size = {"cwd": "/w", "cols": 80, "rows": 24}
        await device.answer(request, {"terminalId": "pty_1", **size})
        for data in (b"$ ", b"file\r\n"):
            output = {"terminalId": "pty_1", "data": base64.b64encode(data).decode()}
            await device.notify("_lembas/terminal/output", output)
        terminal = (await asking).json()
        path = f"/api/local/terminals/{terminal['terminal_id']}"
        await person.post(f"{path}/input", json={"data": typed})
        await person.post(f"{path}/resize", json={"cols": 100, "rows": 30})
        await person.post(f"{path}/close")
        told = [(await device.receive()) for _ in range(3)]
        await device.notify("_lembas/terminal/exit", {"terminalId": "pty_1", "code": 129})
        await Feed(response).event("_lembas/terminal/exit")
        output = (await person.get(f"{path}/output")).json()
        late = await person.post(f"{path}/input", json={"data": typed})
    assert request["params"] == {"cwd": "/w", "cols": 80, "rows": 24}
    assert terminal == {"terminal_id": "pty_1", **size}
    assert [(one["method"], one["params"]) for one in told] == [
        ("_lembas/terminal/input", {"terminalId": "pty_1", "data": typed}),
        ("_lembas/terminal/resize", {"terminalId": "pty_1", "cols": 100, "rows": 30}),
        ("_lembas/terminal/close", {"terminalId": "pty_1"}),
    ]
    said = base64.b64encode(b"$ file\r\n").decode()
    assert output == {"data": said, "exited": True, "code": 129}
    assert late.status_code == 409


async def test_terminals_end_with_their_link(instance: Instance, person: httpx.AsyncClient) -> None:
    async with person.stream("GET", "/api/local/events") as response:
        feed = Feed(response)
        async with LinkedDevice(instance, await log_in(instance)) as device:
            asking = asyncio.create_task(person.post("/api/local/terminals", json={}))
            request = await device.expect("_lembas/terminal/open")
            await device.answer(request, {"terminalId": "pty_1"})
            await asking
        while (await feed.event("instance/device"))["params"]["linked"]:
            pass
        output = (await person.get("/api/local/terminals/pty_1/output")).json()
    assert output == {"data": "", "exited": True, "code": None}


async def test_a_terminal_s_output_is_streamed_from_where_its_reader_was(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        asking = asyncio.create_task(person.post("/api/local/terminals", json={}))
        request = await device.expect("_lembas/terminal/open")
        await device.answer(request, {"terminalId": "pty_1"})
        await asking
        for data in (b"one ", b"two"):
            output = {"terminalId": "pty_1", "data": base64.b64encode(data).decode()}
            await device.notify("_lembas/terminal/output", output)
        await device.notify("_lembas/terminal/exit", {"terminalId": "pty_1", "code": 0})
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "4"}
        # the stream ends by itself, with the shell
        answer = await person.get("/api/local/terminals/pty_1/output", headers=headers)
    events = [part.splitlines() for part in answer.text.strip().split("\n\n")]
    last = base64.b64encode(b"two").decode()
    assert [line for line in events[0] if line.startswith("data")] == [
        f'data: {{"data":"{last}","lost":0}}'
    ]
    assert events[-1] == ["event: exit", 'data: {"code":0}']
