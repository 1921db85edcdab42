"""The pocket instance's chats that are deleted, here or on their device, and turns that are asked for again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lembasd.instance.core.deletions import MAX_REFUSALS
from lembasd.instance.main import Instance, InstanceOptions
from tests.support.linked_device import Feed, LinkedDevice, log_in

DONE = {"stopReason": "end_turn"}
SESSIONS = "/api/local/sessions"
ONE = f"{SESSIONS}/ses_a"
STATUS = {"exists": True, "held": "here", "busy": False, "title": "", "queued": []}


def client(instance: Instance) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {instance.secret}"}
    return httpx.AsyncClient(base_url=instance.base_url, headers=headers)


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


@pytest.fixture
async def person(instance: Instance) -> AsyncIterator[httpx.AsyncClient]:
    async with client(instance) as http:
        yield http


async def opened(
    person: httpx.AsyncClient, device: LinkedDevice, session_id: str = "ses_a"
) -> None:
    asking = asyncio.create_task(person.post(SESSIONS, json={"cwd": "/w"}))
    await device.answer(await device.expect("session/new"), {"sessionId": session_id})
    await asking


async def listed(person: httpx.AsyncClient) -> list[str]:
    return [one["session_id"] for one in (await person.get(SESSIONS)).json()["sessions"]]


def card(session_id: str) -> dict[str, Any]:
    call = {"toolCallId": "call_1", "title": "ls"}
    return {"sessionId": session_id, "toolCall": call, "options": []}


# ── deleted on the device ───────────────────────────────────────────────────────────────────────


async def test_a_chat_goes_with_the_session_that_its_device_deleted(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        feed = Feed(response)
        await opened(person, device)
        await opened(person, device, "ses_b")
        await device.send(id=1, method="session/request_permission", params=card("ses_a"))
        await feed.event("session/request_permission")
        for session_id in ("ses_a", "ses_never", "ses_a"):
            await device.notify("_lembas/session/deleted", {"sessionId": session_id})
            event = await feed.event("_lembas/session/deleted")
            # the page hears of it as of everything else, and lists the sessions anew
            assert event["params"] == {"sessionId": session_id}
        assert await listed(person) == ["ses_b"]
        assert (await person.get("/api/local/cards")).json() == {"cards": []}
        assert (await person.get(ONE)).status_code == 404


async def test_a_device_deletes_no_chat_of_anothers(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as owner:
        await opened(person, owner)
        async with LinkedDevice(instance, await log_in(instance)) as other:
            await other.notify("_lembas/session/deleted", {"sessionId": "ses_a"})
            await other.send(id=1, method="session/request_permission", params=card("ses_a"))
            assert (await other.receive())["error"]["code"] == -32601  # what was before it is read
        assert await listed(person) == ["ses_a"]


async def test_a_busy_turn_of_a_deleted_chat_is_not_sent_again(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    data = {"reason": "busy", "retryable": True}
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await opened(person, device)
        await opened(person, device, "ses_b")
        for session_id in ("ses_a", "ses_b"):
            await person.post(f"{SESSIONS}/{session_id}/prompt", json={"text": "go"})
            request = await device.expect("session/prompt")
            error = {"code": -32603, "message": "later", "data": data}
            await device.send(id=request["id"], error=error)
        await device.notify("_lembas/session/deleted", {"sessionId": "ses_a"})
        again = await device.expect("session/prompt")
    assert again["params"]["sessionId"] == "ses_b"


# ── deleted here ────────────────────────────────────────────────────────────────────────────────


async def test_a_chat_that_is_deleted_here_is_deleted_on_its_device(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token) as device:
        await opened(person, device)
        answer = await person.post(f"{ONE}/delete")
        request = await device.expect("_lembas/session/delete")
        await device.answer(request, {"deleted": True})
        await opened(person, device, "ses_b")
    assert (answer.status_code, request["params"]) == (200, {"sessionId": "ses_a"})
    assert await listed(person) == ["ses_b"]
    async with LinkedDevice(instance, token) as device:
        # it is answered: nothing more of it is said
        await device.answer(await device.expect("_lembas/session/status"), STATUS)
    assert (await person.post(f"{ONE}/delete")).status_code == 404


async def test_a_delete_that_did_not_arrive_is_sent_at_the_next_link_of_another_life_too(
    short_tmp: Path,
) -> None:
    options = InstanceOptions(data=short_tmp, approve=True)
    async with Instance(options) as instance, client(instance) as person:
        token = await log_in(instance)
        async with LinkedDevice(instance, token) as device:
            await opened(person, device)
            await opened(person, device, "ses_b")
            await person.post(f"{ONE}/delete")
            await device.expect("_lembas/session/delete")  # and the link is lost
        await person.post(f"{SESSIONS}/ses_b/delete")  # while it is away
        assert await listed(person) == []
    async with Instance(options) as instance:
        async with LinkedDevice(instance, token) as device:
            sent = []
            for _ in range(2):
                request = await device.expect("_lembas/session/delete")
                sent.append(request["params"]["sessionId"])
                await device.answer(request, {"deleted": False})
        async with LinkedDevice(instance, token) as device, client(instance) as person:
            await opened(person, device, "ses_c")
    assert sent == ["ses_a", "ses_b"]


async def test_a_delete_that_is_refused_five_times_is_given_up(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with person.stream("GET", "/api/local/events") as response:
        async with LinkedDevice(instance, token) as device:
            await opened(person, device)
            await person.post(f"{ONE}/delete")
            request = await device.expect("_lembas/session/delete")
            await device.refuse(request, -32602, "not its folder")
        for _ in range(MAX_REFUSALS - 1):
            async with LinkedDevice(instance, token) as device:
                request = await device.expect("_lembas/session/delete")
                await device.refuse(request, -32602, "not its folder")
                await opened(person, device, "ses_b")
                await device.notify("_lembas/session/deleted", {"sessionId": "ses_b"})
        told = await Feed(response).event("instance/delete_refused")
    async with LinkedDevice(instance, token) as device:
        await opened(person, device, "ses_c")
    assert told["params"] == {"sessionId": "ses_a", "message": "not its folder"}


async def test_a_delete_waits_no_more_once_the_device_says_it_is_done(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token) as device:
        await opened(person, device)
        await person.post(f"{ONE}/delete")
        await device.expect("_lembas/session/delete")
        await device.notify("_lembas/session/deleted", {"sessionId": "ses_a"})
        await opened(person, device, "ses_b")
    async with LinkedDevice(instance, token) as device:
        await device.expect("_lembas/session/status")


async def test_a_session_that_a_terminal_shares_is_a_chat_unless_it_is_to_be_deleted(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    shared = {"cwd": "/w", "title": "At the desk", "mode": "auto", "origin": "terminal"}
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        await opened(person, device)
        await person.post(f"{ONE}/delete")
        await device.expect("_lembas/session/delete")  # not answered yet
        for session_id in ("ses_a", "ses_t"):
            await device.notify("_lembas/session/announce", {"sessionId": session_id, **shared})
        await device.notify("_lembas/session/announce", {"sessionId": "ses_u"})
        event = await Feed(response).event("_lembas/session/announce")
        [session] = (await person.get(SESSIONS)).json()["sessions"]
        feed = {"sessionId": "ses_t", "available": True}
        await device.notify("_lembas/session/left", feed)
        async with person.stream("GET", "/api/local/events", params={"after": "0"}) as again:
            await Feed(again).event("_lembas/session/left")
        [let_go] = (await person.get(SESSIONS)).json()["sessions"]
    assert event["params"] == {"sessionId": "ses_t", **shared}
    assert (session["at_terminal"], let_go["at_terminal"]) == (True, False)
    assert (session["session_id"], session["cwd"], session["title"], session["mode"]) == (
        "ses_t",
        "/w",
        "At the desk",
        "auto",
    )


# ── asked again ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "same_id"),
    [
        ({"reason": "worker_ended"}, False),
        ({"reason": "model", "status": 500}, False),
        (None, False),
        ({"reason": "worker_ended", "retryable": True}, True),
    ],
)
async def test_what_failed_is_asked_again_on_a_person_s_word_and_never_under_an_id_that_is_done(
    instance: Instance, person: httpx.AsyncClient, data: Any, *, same_id: bool
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        feed = Feed(response)
        await opened(person, device)
        await person.post(f"{ONE}/prompt", json={"text": "go", "turn_id": "t1"})
        first = await device.expect("session/prompt")
        error = {"code": -32603, "message": "it failed", "data": data}
        await device.send(id=first["id"], error=error)
        await feed.event("instance/turn")
        # by itself it sends nothing: the next message is the person's
        answer = await person.post(f"{ONE}/turns/t1/again")
        second = await device.expect("session/prompt")
        await device.answer(second, DONE)
        await feed.event("instance/turn")
        turns = (await person.get(ONE)).json()["turns"]
        refused = await person.post(f"{ONE}/turns/{answer.json()['turn_id']}/again")
    again = second["params"]["_meta"]["lembas"]["turnId"]
    assert (answer.status_code, answer.json()) == (202, {"turn_id": again})
    assert second["params"]["prompt"] == first["params"]["prompt"]
    assert (again == "t1") is same_id
    assert [turn["state"] for turn in turns] == (["done"] if same_id else ["done", "done"])
    assert (turns[-1]["turn_id"], turns[-1]["error"]) == (again, None)
    assert refused.status_code == 409


async def test_what_failed_is_asked_again_at_the_next_link_where_the_device_is_away(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with (
        LinkedDevice(instance, token) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        await opened(person, device)
        await person.post(f"{ONE}/prompt", json={"text": "go", "turn_id": "t1"})
        await device.refuse(await device.expect("session/prompt"), -32603, "no")
        await Feed(response).event("instance/turn")
    new_id = (await person.post(f"{ONE}/turns/t1/again")).json()["turn_id"]
    async with LinkedDevice(instance, token) as device:
        request = await device.expect("session/prompt")
    assert request["params"]["_meta"] == {"lembas": {"turnId": new_id}}
