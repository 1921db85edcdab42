"""The pocket instance when something is not as it should be: devices, disks, upstreams, other devices' sessions."""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from lembasd.instance.core.open_cards import MAX_CARDS
from lembasd.instance.core.rows import MAX_WAITING_TURNS
from lembasd.instance.guard import Guard
from lembasd.instance.main import Address, Instance, InstanceOptions, serve
from lembasd.instance.oauth import GRANT_TYPE
from lembasd.instance.records import MAX_CHUNK_BYTES, MAX_OUTPUT_BYTES, MAX_TERMINALS
from lembasd.protocol.errors import UsageError
from lembasd.protocol.limits import MAX_BLOCK_BYTES, MAX_TERMINAL_CHUNK_BYTES
from tests.support.linked_device import HELLO, TIMEOUT_S, Feed, LinkedDevice, log_in

DONE = {"stopReason": "end_turn"}
SESSION = "/api/local/sessions/ses_a"


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


def client(instance: Instance, key: str = "") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key or instance.secret}"}
    return httpx.AsyncClient(base_url=instance.base_url, headers=headers)


@pytest.fixture
async def person(instance: Instance) -> AsyncIterator[httpx.AsyncClient]:
    async with client(instance) as http:
        yield http


async def open_session(
    person: httpx.AsyncClient, device: LinkedDevice, device_id: str | None = None
) -> httpx.Response:
    asking = asyncio.create_task(
        person.post("/api/local/sessions", json={"cwd": "/w", "device": device_id})
    )
    await device.answer(await device.expect("session/new"), {"sessionId": "ses_a"})
    return await asking


def card(session_id: str, call_id: str = "call_1") -> dict[str, Any]:
    return {
        "sessionId": session_id,
        "toolCall": {"toolCallId": call_id, "title": "ls"},
        "options": [{"optionId": "once"}, {"optionId": "deny"}],
    }


# ── turns ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_that_a_busy_device_did_not_take_is_sent_again(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        await open_session(person, device)
        await person.post(f"{SESSION}/prompt", json={"text": "go", "turn_id": "t1"})
        first = await device.expect("session/prompt")
        error = {"code": -32603, "message": "later", "data": {"reason": "busy", "retryable": True}}
        await device.send(id=first["id"], error=error)
        second = await device.expect("session/prompt")
        await device.answer(second, DONE)
        await Feed(response).event("instance/turn")
        [turn] = (await person.get(SESSION)).json()["turns"]
    assert second["params"] == first["params"]
    assert (turn["state"], turn["answer"], turn["error"]) == ("done", DONE, None)


async def test_more_turns_than_may_wait_are_refused(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await open_session(person, device)
    codes = [
        (await person.post(f"{SESSION}/prompt", json={"text": "go"})).status_code
        for _ in range(MAX_WAITING_TURNS + 1)
    ]
    assert codes == [202] * MAX_WAITING_TURNS + [429]


async def test_a_prompt_over_the_specs_bound_is_refused(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await open_session(person, device)
        answer = await person.post(f"{SESSION}/prompt", json={"text": "x" * (MAX_BLOCK_BYTES + 1)})
    assert (answer.status_code, "send less" in answer.text) == (422, True)


async def test_an_answer_of_another_shape_is_said(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        asking = asyncio.create_task(person.post("/api/local/sessions", json={"cwd": "/w"}))
        await device.answer(await device.expect("session/new"), ["no", "session"])
        session = await asking
        asking = asyncio.create_task(person.post("/api/local/terminals", json={}))
        await device.answer(await device.expect("_lembas/terminal/open"), None)
        terminal = await asking
        asking = asyncio.create_task(person.post("/api/local/terminals", json={}))
        await device.send(id=(await device.expect("_lembas/terminal/open"))["id"], error=[])
        strange = await asking
    assert [one.status_code for one in (session, terminal, strange)] == [409, 409, 409]
    assert all("cannot be read" in one.text for one in (session, terminal, strange))


async def test_a_request_whose_link_ends_is_answered(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await open_session(person, device)
        asking = asyncio.create_task(person.get(f"{SESSION}/status"))
        await device.expect("_lembas/session/status")
    answer = await asking
    assert (answer.status_code, answer.json()["error"]["data"]["reason"]) == (503, "not_linked")


async def test_a_device_that_says_nothing_more_before_its_hello_harms_nobody(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token, introduce=False):
        pass
    async with LinkedDevice(instance, token) as device:
        assert (await open_session(person, device)).status_code == 201


async def test_a_message_without_params_that_are_an_object_ends_the_link(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        await device.send(method="session/update", params=[1])
        event = await Feed(response).event("instance/device")
    assert event["params"]["linked"] is False


async def test_an_answer_that_nobody_waits_for_is_dropped(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await device.send(id="4711", result={})
        await device.send(id=4711, result={})
        assert (await open_session(person, device)).status_code == 201


# ── whose session it is ─────────────────────────────────────────────────────────────────────────


async def test_a_device_says_nothing_of_anothers_session(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as owner,
        LinkedDevice(instance, await log_in(instance)) as other,
        person.stream("GET", "/api/local/events") as response,
    ):
        device_id = (await person.get("/api/local/devices")).json()["devices"][0]["id"]
        await open_session(person, owner, device_id)
        title = {"sessionId": "ses_a", "event": {"type": "title", "title": "mine now"}}
        await other.notify("_lembas/event", title)
        await other.send(id=1, method="session/request_permission", params=card("ses_a"))
        refused = await other.receive()
        await owner.notify("_lembas/event", {"sessionId": "ses_a", "event": {"type": "done"}})
        event = await Feed(response).event("_lembas/event")
        about = (await person.get(SESSION)).json()
        cards = (await person.get("/api/local/cards")).json()
    assert refused["error"]["code"] == -32601
    assert (event["params"]["event"]["type"], about["title"], cards) == ("done", "", {"cards": []})


async def test_what_a_session_says_of_itself_is_kept(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        await open_session(person, device)
        said: list[Any] = ["?", {"type": "title", "title": "Fix it"}]
        for event in (*said, {"type": "mode", "mode": "plan"}, {"type": "last"}):
            await device.notify("_lembas/event", {"sessionId": "ses_a", "event": event})
        feed = Feed(response)
        while (await feed.event("_lembas/event"))["params"]["event"] != {"type": "last"}:
            pass
        about = (await person.get(SESSION)).json()
    assert (about["title"], about["mode"]) == ("Fix it", "plan")


async def test_events_of_one_session_come_alone(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await open_session(person, device)
        async with person.stream("GET", f"{SESSION}/events") as response:
            for session_id in ("ses_b", "ses_a"):
                await device.notify("session/update", {"sessionId": session_id})
            event = await Feed(response).event("session/update")
        unknown = await person.get("/api/local/sessions/ses_x/events")
    assert (event["session_id"], unknown.status_code) == ("ses_a", 404)


# ── cards ───────────────────────────────────────────────────────────────────────────────────────


async def test_cards_of_equal_ids_are_told_apart_by_their_session(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    path = "/api/local/cards/call_1"
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        feed = Feed(response)
        for name in ("ses_a", "ses_b"):
            await device.send(id=name, method="session/request_permission", params=card(name))
            await feed.event("session/request_permission")
        unclear = await person.post(path, json={"option": "deny"})
        body = {"option": "deny", "session_id": "ses_b", "feedback": "no"}
        clear = await person.post(path, json=body)
        answer = await device.receive()
        last = await person.post(path, json={"option": "once"})
        assert (await device.receive())["id"] == "ses_a"
    assert (unclear.status_code, clear.status_code, last.status_code) == (409, 200, 200)
    assert (answer["id"], answer["result"]["_meta"]) == ("ses_b", {"lembas": {"feedback": "no"}})


async def test_a_card_too_many_cancels_the_oldest(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        for number in range(MAX_CARDS + 1):
            params = card("ses_a", f"call_{number}")
            await device.send(id=number, method="session/request_permission", params=params)
        answer = await device.receive()
        cards = (await person.get("/api/local/cards")).json()["cards"]
    assert (answer["id"], answer["result"]) == (0, {"outcome": {"outcome": "cancelled"}})
    assert len(cards) == MAX_CARDS


async def test_a_card_that_names_no_call_is_refused(instance: Instance) -> None:
    async with LinkedDevice(instance, await log_in(instance)) as device:
        await device.send(id=1, method="session/request_permission", params={"toolCall": {}})
        assert (await device.receive())["error"]["code"] == -32601


# ── terminals ───────────────────────────────────────────────────────────────────────────────────


async def said(response: httpx.Response) -> list[str]:
    """Every data and event line of a stream that ends."""
    async with asyncio.timeout(TIMEOUT_S):
        lines = [line async for line in response.aiter_lines()]
    return [line for line in lines if line.startswith(("data: ", "event: "))]


async def test_a_reader_far_behind_a_terminal_is_told_what_it_lost(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    chunk = b"x" * MAX_TERMINAL_CHUNK_BYTES
    count = MAX_OUTPUT_BYTES // len(chunk) + 1
    async with LinkedDevice(instance, await log_in(instance)) as device:
        for _ in range(count):
            data = base64.b64encode(chunk).decode()
            output = {"terminalId": "term_a", "data": data}
            await device.notify("_lembas/terminal/output", output)
        await device.notify("_lembas/terminal/output", {"terminalId": "term_a", "data": "?"})
        async with person.stream("GET", "/api/local/events") as response:
            exited = {"terminalId": "term_a", "code": 0}
            await device.notify("_lembas/terminal/exit", exited)
            await Feed(response).event("_lembas/terminal/exit")
        headers = {"Accept": "text/event-stream"}
        path = "/api/local/terminals/term_a/output"
        async with person.stream("GET", path, headers=headers) as response:
            lines = await said(response)
    whole = base64.b64encode(b"x" * MAX_CHUNK_BYTES).decode()
    assert lines[0] == f'data: {{"data":"{whole}","lost":{len(chunk)}}}'
    assert lines[1:-2] == [f'data: {{"data":"{whole}","lost":0}}'] * (len(lines) - 3)
    assert lines[-2:] == ["event: exit", 'data: {"code":0}']


async def test_the_oldest_terminal_is_forgotten_for_a_new_one(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with (
        LinkedDevice(instance, await log_in(instance)) as device,
        person.stream("GET", "/api/local/events") as response,
    ):
        feed = Feed(response)
        for number in range(MAX_TERMINALS + 1):
            exited = {"terminalId": f"term_{number}", "code": number}
            await device.notify("_lembas/terminal/exit", exited)
            await feed.event("_lembas/terminal/exit")
        codes = [
            (await person.get(f"/api/local/terminals/term_{number}/output")).status_code
            for number in (0, 1)
        ]
    assert codes == [404, 200]


# ── disks and upstreams ─────────────────────────────────────────────────────────────────────────


async def test_a_data_directory_is_one_instances(short_tmp: Path) -> None:
    async with Instance(InstanceOptions(data=short_tmp)):
        with pytest.raises(UsageError, match=f"another instance uses {short_tmp}"):
            async with Instance(InstanceOptions(data=short_tmp)):
                pass
    async with Instance(InstanceOptions(data=short_tmp)):
        pass


async def test_a_data_directory_that_cannot_be_one_is_said(short_tmp: Path) -> None:
    file = short_tmp / "file"
    file.write_text("")
    with pytest.raises(UsageError, match=r"cannot be used .*; give another --data"):
        async with Instance(InstanceOptions(data=file)):
            pass


async def test_a_token_that_cannot_be_stored_is_not_given(short_tmp: Path) -> None:
    async with (
        Instance(InstanceOptions(data=short_tmp, approve=True)) as instance,
        client(instance) as http,
    ):
        (short_tmp / "tokens.json").mkdir()  # nothing can be put in its place
        form = {"client_id": "cli"}
        code = (await http.post("/oauth/device_authorization", data=form)).json()["device_code"]
        form |= {"grant_type": GRANT_TYPE, "device_code": code}
        answer = await http.post("/oauth/token", data=form)
    assert (answer.status_code, answer.json()["error"]) == (500, "server_error")
    assert "cannot be stored" in answer.json()["error_description"]


async def test_a_session_that_cannot_be_stored_goes_on(short_tmp: Path) -> None:
    async with (
        Instance(InstanceOptions(data=short_tmp, approve=True)) as instance,
        LinkedDevice(instance, await log_in(instance)) as device,
        client(instance) as person,
    ):
        (short_tmp / "sessions.json").mkdir()
        await open_session(person, device)
        answer = await person.post(f"{SESSION}/prompt", json={"text": "go"})
        await device.expect("session/prompt")
    assert answer.status_code == 202


async def test_an_upstream_that_breaks_off_breaks_our_answer_and_writes_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server, Instance(InstanceOptions(upstream=url, approve=True)) as instance:
        token = await log_in(instance)
        with caplog.at_level(logging.DEBUG):
            async with client(instance, token) as http:
                with pytest.raises(httpx.RemoteProtocolError):
                    await http.get("/v1/models")
    assert not [record for record in caplog.records if record.exc_info]


# ── starting ────────────────────────────────────────────────────────────────────────────────────


async def test_serve_says_its_address_and_ends_when_it_is_cancelled() -> None:
    ready: asyncio.Future[Address] = asyncio.get_running_loop().create_future()

    async def told(running: Instance) -> None:
        ready.set_result(running.address)

    serving = asyncio.create_task(serve(InstanceOptions(), told))
    address = await ready
    async with httpx.AsyncClient(base_url=address.base_url) as http:
        assert (await http.get("/.well-known/lembas.json")).status_code == 200
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(httpx.ConnectError):
            await http.get("/.well-known/lembas.json")
    assert address.secret not in repr(address)


async def test_the_upstreams_key_is_in_no_repr() -> None:
    assert "sk-1" not in repr(InstanceOptions(upstream="http://x/v1", upstream_key="sk-1"))


async def test_on_port_80_a_browser_leaves_the_port_out() -> None:
    guard = Guard(PlainTextResponse("ok"), 80)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guard)) as http:
        answers = [
            (await http.get(url, headers={"Host": host})).status_code
            for url, host in [
                ("http://localhost/", "localhost"),
                ("http://localhost/", "localhost:80"),
                ("http://localhost/", "evil.example"),
            ]
        ]
    assert answers == [200, 200, 421]


async def test_a_hello_with_protocol_3_alone_is_not_enough(instance: Instance) -> None:
    hello = {**HELLO, "device": "laptop"}
    async with LinkedDevice(instance, await log_in(instance), introduce=False) as device:
        await device.notify("_lembas/hello", hello)
        await device.socket.wait_closed()
    assert device.socket.close_code == 4400
