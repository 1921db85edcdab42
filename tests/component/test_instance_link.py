"""The pocket instance's side of the link, and the person's API on top of it, with a device made of messages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from lembasd.instance.main import Instance, InstanceOptions
from tests.support.linked_device import HELLO, Feed, LinkedDevice, log_in
from tests.support.milestones import Milestones

DONE = {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t1"}}}
STATUS = {"exists": True, "held": "here", "busy": False, "title": "Fix it", "queued": []}


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


@pytest.fixture
async def person(instance: Instance) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {instance.secret}"}
    async with httpx.AsyncClient(base_url=instance.base_url, headers=headers) as client:
        yield client


async def opened(
    person: httpx.AsyncClient, device: LinkedDevice, session_id: str = "ses_a"
) -> httpx.Response:
    """A session opened through the API and granted by the device."""
    body = {"cwd": "/w", "mode": "auto", "model": "demo"}
    asking = asyncio.create_task(person.post("/api/local/sessions", json=body))
    request = await device.expect("session/new")
    assert request["params"] == {
        "cwd": "/w",
        "mcpServers": [],
        "_meta": {"mode": "auto", "lembas_model": "demo"},
    }
    modes = {"currentModeId": "edit", "availableModes": []}
    meta = {"lembas": {"model": "demo", "mode": "edit"}}
    await device.answer(request, {"sessionId": session_id, "modes": modes, "_meta": meta})
    return await asking


async def prompted(
    person: httpx.AsyncClient, device: LinkedDevice, turn_id: str = "t1"
) -> dict[str, Any]:
    """A turn asked through the API, as its request came to the device."""
    body = {"text": "go", "turn_id": turn_id}
    answer = await person.post("/api/local/sessions/ses_a/prompt", json=body)
    assert (answer.status_code, answer.json()) == (202, {"turn_id": turn_id})
    return await device.expect("session/prompt")


async def turns(person: httpx.AsyncClient) -> list[Any]:
    about = (await person.get("/api/local/sessions/ses_a")).json()
    return [(turn["turn_id"], turn["state"], turn["answer"]) for turn in about["turns"]]


async def test_a_linked_device_is_listed_with_its_limits(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with (
        person.stream("GET", "/api/local/events") as response,
        LinkedDevice(instance, token),
    ):
        event = await Feed(response).event("instance/device")
        [device] = (await person.get("/api/local/devices")).json()["devices"]
    assert event["params"] == {"device": device["id"], "linked": True}
    assert device == {
        "id": device["id"],
        "name": "laptop",
        "linked": True,
        "limits": HELLO["limits"],
        "capabilities": ["turns"],
        "sessions": [],
    }


async def test_a_device_that_is_linked_is_a_milestone(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Milestones(short_tmp / "m") as milestones:
        for name, path in milestones.environment.items():
            monkeypatch.setenv(name, path)
        async with Instance(InstanceOptions(approve=True)) as instance:
            await milestones.wait("instance.listening", port=instance.port)
            async with LinkedDevice(instance, await log_in(instance)):
                await milestones.wait("instance.device_linked")


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("_lembas/hello", {**HELLO, "protocol": 2}, "update LLeMbas CLI to 2.0"),
        ("_lembas/hello", {}, "update LLeMbas CLI to 2.0"),
        ("_lembas/hello", {"protocol": 3}, "the first message must be _lembas/hello"),
        ("session/update", {}, "the first message must be _lembas/hello"),
    ],
)
@pytest.mark.spec("versions: a hello of another protocol is closed with 4400")
async def test_a_hello_of_another_protocol_or_none_is_closed_with_4400(
    instance: Instance, method: str, params: dict[str, Any], reason: str
) -> None:
    async with LinkedDevice(instance, await log_in(instance), introduce=False) as device:
        await device.notify(method, params)
        with pytest.raises(ConnectionClosed) as closed:
            await device.receive()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4400, reason)


async def test_garbage_ends_the_link(instance: Instance) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await device.socket.send("no JSON")
        with pytest.raises(ConnectionClosed) as closed:
            await device.receive()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


async def test_a_newer_link_of_the_same_device_replaces_the_older(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token) as older, LinkedDevice(instance, token) as newer:
        with pytest.raises(ConnectionClosed) as closed:
            await older.receive()
        assert (await opened(person, newer)).status_code == 201
        devices = (await person.get("/api/local/devices")).json()["devices"]
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4001
    assert [(device["linked"], device["sessions"]) for device in devices] == [(True, ["ses_a"])]


async def test_a_session_opens_with_what_the_device_granted(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        answer = await opened(person, device)
    assert (answer.status_code, answer.json()) == (
        201,
        {"session_id": "ses_a", "mode": "edit", "model": "demo"},
    )


async def test_a_device_s_refusal_is_passed_on(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        asking = asyncio.create_task(person.post("/api/local/sessions", json={"cwd": "/x"}))
        await device.refuse(await device.expect("session/new"), -32602, "outside the roots")
        answer = await asking
    error = {"code": -32602, "message": "outside the roots", "data": None}
    assert (answer.status_code, answer.json()) == (409, {"error": error})


async def test_without_a_link_the_person_is_told_what_to_do(person: httpx.AsyncClient) -> None:
    answer = await person.post("/api/local/sessions", json={"cwd": "/w"})
    assert (answer.status_code, answer.json()["error"]["data"]) == (503, {"reason": "not_linked"})
    assert "start lembasd there" in answer.json()["error"]["message"]


async def test_with_two_devices_the_person_says_which(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)),
        LinkedDevice(instance, await log_in(instance)) as second,
    ):
        unclear = await person.post("/api/local/sessions", json={"cwd": "/w"})
        device = (await person.get("/api/local/devices")).json()["devices"][1]["id"]
        body = {"cwd": "/w", "device": device}
        asking = asyncio.create_task(person.post("/api/local/sessions", json=body))
        await second.answer(await second.expect("session/new"), {"sessionId": "ses_b"})
        answer = await asking
    assert (unclear.status_code, answer.status_code) == (409, 201)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/local/sessions/ses_x/prompt", {"text": "go"}, 404),
        ("/api/local/sessions/ses_a/prompt", {"text": " "}, 422),
        ("/api/local/sessions/ses_a/prompt", {}, 422),
        ("/api/local/sessions", {"cwd": 1}, 422),
        ("/api/local/cards/none", {"option": "once"}, 404),
        ("/api/local/terminals/none/input", {"data": ""}, 404),
        ("/api/local/terminals", {"cols": "wide"}, 422),
        ("/api/local/logins/NONE", {"approve": True}, 404),
    ],
)
async def test_what_cannot_be_done_is_refused(
    instance: Instance, person: httpx.AsyncClient, path: str, body: dict[str, Any], status: int
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await opened(person, device)
        answer = await person.post(path, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


async def test_a_turn_runs_once_and_its_answer_is_kept(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await opened(person, device)
        async with person.stream("GET", "/api/local/events?session=ses_a") as response:
            request = await prompted(person, device)
            running = await turns(person)
            body = {"text": "go", "turn_id": "t1"}
            again = await person.post("/api/local/sessions/ses_a/prompt", json=body)
            await device.answer(request, DONE)
            await Feed(response).event("instance/turn")
        ended = await turns(person)
        # the next message is the history's request: the turn was not sent a second time
        asking = asyncio.create_task(person.get("/api/local/sessions/ses_a/history"))
        await device.answer(await device.expect("_lembas/session/history"), {"turns": []})
        history = await asking
    assert request["params"] == {
        "sessionId": "ses_a",
        "prompt": [{"type": "text", "text": "go"}],
        "_meta": {"lembas": {"turnId": "t1"}},
    }
    assert (running, ended) == ([("t1", "running", None)], [("t1", "done", DONE)])
    assert (again.status_code, history.json()) == (202, {"turns": []})


async def test_an_answer_that_a_dropped_link_lost_is_collected_on_the_next_one(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token) as device:
        await opened(person, device)
        await prompted(person, device)
    body = {"text": "later", "turn_id": "t2"}
    await person.post("/api/local/sessions/ses_a/prompt", json=body)
    away = await turns(person)
    async with (
        person.stream("GET", "/api/local/events?session=ses_a") as response,
        LinkedDevice(instance, token) as device,
    ):
        first = await device.expect("session/prompt")
        second = await device.expect("session/prompt")
        await device.answer(await device.expect("_lembas/session/status"), STATUS)
        await device.answer(first, DONE)
        await Feed(response).event("instance/turn")
        half = await turns(person)
    sent = [request["params"]["_meta"]["lembas"]["turnId"] for request in (first, second)]
    assert sent == ["t1", "t2"]
    assert away == [("t1", "running", None), ("t2", "queued", None)]
    assert half == [("t1", "done", DONE), ("t2", "running", None)]


async def test_turns_last_over_a_restart_of_the_instance(short_tmp: Path) -> None:
    options = InstanceOptions(data=short_tmp, approve=True)
    async with Instance(options) as instance:
        token = await log_in(instance)
        headers = {"Authorization": f"Bearer {instance.secret}"}
        async with (
            httpx.AsyncClient(base_url=instance.base_url, headers=headers) as person,
            LinkedDevice(instance, token) as device,
        ):
            await opened(person, device)
            await prompted(person, device)
    async with Instance(options) as instance, LinkedDevice(instance, token) as device:
        request = await device.expect("session/prompt")
    assert request["params"]["_meta"] == {"lembas": {"turnId": "t1"}}


async def test_a_turn_that_failed_on_the_device_says_why(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await opened(person, device)
        async with person.stream("GET", "/api/local/events") as response:
            await device.refuse(await prompted(person, device), -32603, "the worker ended")
            await Feed(response).event("instance/turn")
        about = (await person.get("/api/local/sessions/ses_a")).json()
    error = {"code": -32603, "message": "the worker ended", "data": None}
    assert (about["status"], about["turns"][0]["error"]) == ("idle", error)


async def test_cancel_and_mode_go_to_the_device(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await opened(person, device)
        await person.post("/api/local/sessions/ses_a/cancel")
        cancel = await device.expect("session/cancel")
        body = {"mode": "plan"}
        asking = asyncio.create_task(person.post("/api/local/sessions/ses_a/mode", json=body))
        mode = await device.expect("session/set_mode")
        await device.answer(mode, {})
        assert (await asking).status_code == 200
    assert (cancel.get("id"), cancel["params"]) == (None, {"sessionId": "ses_a"})
    assert mode["params"] == {"sessionId": "ses_a", "modeId": "plan"}
