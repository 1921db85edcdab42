"""Terminals on the page of an instance: what goes to it, what comes from it, and what their device is told."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from lembasd.instance.core.terminal_output import MAX_OUTPUT_BYTES, RESET, WINDOW_BYTES
from lembasd.instance.main import Instance, InstanceOptions
from lembasd.protocol.limits import MAX_TERMINAL_CHUNK_BYTES
from tests.support.linked_device import TIMEOUT_S, Feed, LinkedDevice, log_in

BOTH = ["terminal", "terminal_flow", "terminal_resume"]


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


@pytest.fixture
async def person(instance: Instance) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {instance.secret}"}
    async with httpx.AsyncClient(base_url=instance.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def device(instance: Instance) -> AsyncIterator[LinkedDevice]:
    async with LinkedDevice(instance, await log_in(instance), capabilities=BOTH) as linked:
        yield linked


async def opened(person: httpx.AsyncClient, device: LinkedDevice) -> None:
    asking = asyncio.create_task(person.post("/api/local/terminals", json={}))
    request = await device.expect("_lembas/terminal/open")
    await device.answer(request, {"terminalId": "term_a", "cwd": "/w", "cols": 80, "rows": 24})
    assert (await asking).status_code == 201


async def says(device: LinkedDevice, data: bytes, offset: int) -> None:
    """Output of the device's terminal, as it stands on the wire."""
    output = {
        "terminalId": "term_a",
        "data": base64.b64encode(data).decode(),
        "_meta": {"lembas": {"offset": offset}},
    }
    await device.notify("_lembas/terminal/output", output)


class Page:
    """The page's end of a terminal's WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def receive(self) -> Any:
        """Output as bytes, else what was told."""
        async with asyncio.timeout(TIMEOUT_S):
            message = await self.socket.recv()
        return message if isinstance(message, bytes) else msgspec.json.decode(message)

    async def bytes(self, count: int) -> bytes:
        """So many bytes of output, and nothing else."""
        data = b""
        while len(data) < count:
            data += await self.receive()
        return data

    async def say(self, **value: Any) -> None:
        await self.socket.send(msgspec.json.encode(value).decode())


@asynccontextmanager
async def looking(instance: Instance, query: str = "", **headers: str) -> AsyncIterator[Page]:
    url = f"ws://127.0.0.1:{instance.port}/api/local/terminals/term_a/live{query}"
    who = {"Authorization": f"Bearer {instance.secret}", **headers}
    async with connect(url, additional_headers=who, proxy=None, max_size=None) as socket:
        yield Page(socket)


async def acknowledged(device: LinkedDevice) -> int:
    said = (await device.expect("_lembas/terminal/ack"))["params"]
    assert said["terminalId"] == "term_a"
    return int(said["offset"])


async def test_the_instance_asks_for_both_extensions(instance: Instance) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token, introduce=False) as device:
        await device.hello()
        asked = await device.expect("initialize")
    assert asked["params"]["clientCapabilities"] == {
        "_meta": {"lembas": {"protocol": 3, "terminal_flow": True, "terminal_resume": True}}
    }


async def test_output_comes_keys_and_sizes_go_and_the_end_is_told(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice
) -> None:
    await opened(person, device)
    async with looking(instance) as page:
        assert await page.receive() == {"from": 0, "until": 0}
        await says(device, b"$ \xff", 0)
        assert await page.receive() == b"$ \xff"
        await page.socket.send(b"ls\r")
        typed = (await device.expect("_lembas/terminal/input"))["params"]
        await page.say(cols=100, rows=30)
        size = (await device.expect("_lembas/terminal/resize"))["params"]
        await device.notify("_lembas/terminal/exit", {"terminalId": "term_a", "code": 3})
        assert await page.receive() == {"exit": 3}
        with pytest.raises(ConnectionClosed) as closed:
            await page.receive()
    assert typed == {"terminalId": "term_a", "data": base64.b64encode(b"ls\r").decode()}
    assert size == {"terminalId": "term_a", "cols": 100, "rows": 30}
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


async def test_what_nobody_looks_at_is_acknowledged_at_once(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice
) -> None:
    await opened(person, device)
    await says(device, b"12345", 0)
    assert await acknowledged(device) == 5


async def test_the_device_is_told_what_the_page_has_drawn_and_nothing_earlier(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice
) -> None:
    await opened(person, device)
    async with looking(instance) as page:
        await page.receive()
        await says(device, b"12345", 0)
        # an interrupt left some out: the page counts what came, the device its output
        await says(device, b"^C", 9000)
        assert await page.bytes(7) == b"12345^C"
        await page.say(shown=6)
        assert await acknowledged(device) == 5
        await page.say(shown=7)
        assert await acknowledged(device) == 9002


async def test_a_page_is_sent_no_more_than_it_can_draw_in_a_moment(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice
) -> None:
    await opened(person, device)
    chunk = b"x" * MAX_TERMINAL_CHUNK_BYTES
    for number in range(16):
        await says(device, chunk, number * len(chunk))
        await acknowledged(device)
    async with looking(instance) as page:
        await page.receive()
        assert len(await page.bytes(WINDOW_BYTES)) == WINDOW_BYTES
        # an answer comes after everything that was sent before it
        await (await page.socket.ping())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await page.socket.recv()
        await page.say(shown=WINDOW_BYTES)
        assert len(await page.bytes(WINDOW_BYTES)) == WINDOW_BYTES


async def test_a_page_that_comes_back_goes_on_where_it_was(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice
) -> None:
    await opened(person, device)
    await says(device, b"12345", 0)
    async with looking(instance, "?after=3") as page:
        assert [await page.receive(), await page.receive()] == [{"from": 3, "until": 5}, b"45"]
    async with looking(instance, "?after=99") as page:
        assert [await page.receive(), await page.receive()] == [{"from": 0, "until": 5}, b"12345"]


async def test_a_page_whose_place_is_gone_is_given_a_redraw(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice
) -> None:
    await opened(person, device)
    chunk = b"x" * MAX_TERMINAL_CHUNK_BYTES
    count = MAX_OUTPUT_BYTES // len(chunk) + 1
    for number in range(count):
        await says(device, chunk, number * len(chunk))
        await acknowledged(device)
    end = count * len(chunk)
    async with looking(instance) as page:
        asked = await device.expect("_lembas/terminal/attach")
        await device.answer(asked, {"terminalId": "term_a", "offset": end - 4, "redraw": True})
        await says(device, RESET, end - 4)
        await says(device, b"tail", end - 4)
        assert asked["params"] == {"terminalId": "term_a"}
        begins = (await page.receive())["from"]
        assert begins == end
        assert await page.bytes(6) == RESET + b"tail"
    # whoever comes now needs no other
    async with looking(instance) as page:
        assert (await page.receive())["from"] == end
        assert await page.bytes(6) == RESET + b"tail"


async def test_a_terminal_waits_for_its_devices_next_link_and_goes_on(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    token = await log_in(instance)
    async with LinkedDevice(instance, token, capabilities=BOTH) as device:
        await opened(person, device)
        await says(device, b"12345", 0)
        await acknowledged(device)
    async with looking(instance) as page:
        told = [await page.receive() for _ in range(3)]
        assert {"away": True} in told
        assert b"12345" in told
        async with LinkedDevice(instance, token, capabilities=BOTH) as device:
            # a hub that has just begun does not know the terminal yet
            first = await device.expect("_lembas/terminal/attach")
            await device.refuse(first, -32602, "unknown terminal")
            again = await device.expect("_lembas/terminal/attach")
            assert again["params"] == {"terminalId": "term_a", "offset": 5}
            await device.answer(again, {"terminalId": "term_a", "offset": 5, "redraw": False})
            assert await page.receive() == {"away": False}
            await says(device, b"67", 5)
            assert await page.receive() == b"67"
            (listed,) = (await person.get("/api/local/terminals")).json()["terminals"]
    assert listed == {
        "terminal_id": "term_a",
        "device": listed["device"],
        "cwd": "/w",
        "away": False,
        "exited": False,
        "code": None,
    }


async def test_an_instance_that_starts_anew_takes_its_terminals_up_again(short_tmp: Path) -> None:
    async with Instance(InstanceOptions(data=short_tmp, approve=True)) as first:
        token = await log_in(first)
        async with (
            LinkedDevice(first, token, capabilities=BOTH) as device,
            httpx.AsyncClient(
                base_url=first.base_url, headers={"Authorization": f"Bearer {first.secret}"}
            ) as person,
        ):
            await opened(person, device)
    options = InstanceOptions(data=short_tmp, port=first.port, approve=True)
    async with (
        Instance(options) as second,
        looking(second, "?after=4711") as page,
        LinkedDevice(second, token, capabilities=BOTH) as device,
    ):
        assert await page.receive() == {"from": 0, "until": 0}
        assert await page.receive() == {"away": True}
        asked = await device.expect("_lembas/terminal/attach")
        assert asked["params"] == {"terminalId": "term_a"}
        await device.answer(asked, {"terminalId": "term_a", "offset": 90, "redraw": True})
        await says(device, RESET, 90)
        assert {"away": False} in [await page.receive(), await page.receive()]
        exited = {"terminalId": "term_a", "code": 0}
        await device.notify("_lembas/terminal/exit", exited)
        assert await page.receive() == {"exit": 0}
    async with (
        Instance(options) as third,
        httpx.AsyncClient(
            base_url=third.base_url, headers={"Authorization": f"Bearer {third.secret}"}
        ) as person,
    ):
        assert (await person.get("/api/local/terminals")).json() == {"terminals": []}


async def test_a_device_that_does_neither_is_told_nothing_and_its_terminals_end_with_the_link(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    async with person.stream("GET", "/api/local/events") as response:
        async with LinkedDevice(instance, await log_in(instance), capabilities=["terminal"]) as one:
            await opened(person, one)
            output = {"terminalId": "term_a", "data": base64.b64encode(b"old").decode()}
            await one.notify("_lembas/terminal/output", output)
            async with looking(instance) as page:
                assert await page.receive() == {"from": 0, "until": 3}
                assert await page.receive() == b"old"
                await page.say(shown=3)
                await page.socket.send(b"x")
                # the keys are the next thing that the device hears
                await one.expect("_lembas/terminal/input")
        feed = Feed(response)
        while (await feed.event("instance/device"))["params"]["linked"]:
            pass
    async with looking(instance) as page:
        assert [await page.receive() for _ in range(3)] == [
            {"from": 0, "until": 3},
            b"old",
            {"exit": None},
        ]


@pytest.mark.parametrize("said", ["?", '{"shown": "x"}', "[]"])
async def test_what_cannot_be_read_ends_the_pages_connection_alone(
    instance: Instance, person: httpx.AsyncClient, device: LinkedDevice, said: str
) -> None:
    await opened(person, device)
    async with looking(instance) as page:
        await page.receive()
        await page.socket.send(said)
        with pytest.raises(ConnectionClosed) as closed:
            await page.receive()
    async with looking(instance) as page:
        assert await page.receive() == {"from": 0, "until": 0}
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
async def test_nobody_else_looks_at_a_terminal(
    instance: Instance,
    person: httpx.AsyncClient,
    device: LinkedDevice,
    headers: dict[str, str],
    status: int,
) -> None:
    await opened(person, device)
    with pytest.raises(InvalidStatus) as refused:
        async with looking(instance, **headers):
            pass
    assert refused.value.response.status_code == status


async def test_a_terminal_that_is_not_there_is_refused(instance: Instance) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with looking(instance):
            pass
    assert refused.value.response.status_code == 404


async def test_xterm_comes_from_the_instance_under_the_pages_policy(
    instance: Instance, person: httpx.AsyncClient
) -> None:
    for name, kind in (
        ("xterm.mjs", "text/javascript"),
        ("addon-fit.mjs", "text/javascript"),
        ("xterm.css", "text/css"),
    ):
        answer = await person.get(f"/vendor/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        assert "unsafe" not in policy
