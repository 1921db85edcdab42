"""The link as the hub's client: hello, limits, terminals, redial, and a socket that does not take its messages."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lembasd.hub.core.clients import LAG_CHANNEL_BYTES
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Account, Remote, Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.lembas import CAPABILITIES
from tests.support.hub_process import (
    LEMBAS,
    SOON_S,
    RecordingConnection,
    RunningHub,
    ScriptedProcess,
    running_hub,
)

REMOTE = Remote(enabled=True, roots=["~/work"], max_mode="manual", terminal=True)


@pytest.fixture
async def hub(short_tmp: Path) -> AsyncIterator[RunningHub]:
    account = Account(base_url="https://x", token="t", connection="example")
    async with running_hub(short_tmp, Settings(remote=REMOTE, account=account)) as running:
        yield running


REPLAY = {"clientCapabilities": {"_meta": {"lembas": {"protocol": 3, "replay": True}}}}


def linked(hub: RunningHub, initialize: object = LEMBAS) -> RecordingConnection:
    """A link that has said initialize; what was said until then is taken away."""
    connection = RecordingConnection()
    hub.link.link_up(connection)
    hub.link.link_message(connection, jsonrpc.request(0, "initialize", initialize))
    connection.sent.clear()
    return connection


def ask(hub: RunningHub, connection: RecordingConnection, method: str, params: object) -> None:
    hub.link.link_message(connection, jsonrpc.request(1, method, params))


async def session(hub: RunningHub, connection: RecordingConnection) -> ScriptedProcess:
    """A session that the link's client has made, with its worker."""
    ask(hub, connection, "session/new", {"cwd": "/p"})
    worker = await hub.process(await hub.starter.next())
    worker.answer(await worker.next_method("session/new"), {"sessionId": worker.channel})
    worker.state(busy=False, given=True)
    await settled(worker)
    connection.sent.clear()
    return worker


async def settled(worker: ScriptedProcess) -> None:
    """Everything that the worker has sent until now has been handled."""
    worker.send(Envelope(kind="mark", channel=worker.channel))
    await worker.next(kinds.UNKNOWN)


def texts(connection: RecordingConnection) -> list[str]:
    """What the client was told of the session, and its answers."""
    said: list[Any] = connection.sent
    return [m["params"]["text"] if "params" in m else f"answer {m['id']}" for m in said]


@pytest.mark.spec(
    "hello: comes once and first",
    "versions: hello says protocol 3",
    "hello: roots",
    "hello: max_mode",
    "hello: require_trust",
    "hello: scheduled",
)
async def test_hello_comes_first_and_says_the_limits(hub: RunningHub) -> None:
    connection = RecordingConnection()
    hub.link.link_up(connection)
    (hello,) = connection.sent
    assert hello["method"] == "_lembas/hello"
    assert hello["params"]["protocol"] == 3
    assert hello["params"]["limits"] == {
        "roots": ["~/work"],
        "max_mode": "manual",
        "require_trust": True,
        "scheduled": False,
    }


@pytest.mark.spec("hello: no roots while remote work is off")
async def test_a_device_with_remote_work_off_says_no_roots(short_tmp: Path) -> None:
    async with running_hub(short_tmp, Settings(remote=Remote(roots=["~/work"]))) as hub:
        connection = RecordingConnection()
        hub.link.link_up(connection)
        hub.link.link_message(connection, jsonrpc.request(0, "initialize", LEMBAS))
        hello, answer = connection.sent
        assert hello["params"]["limits"]["roots"] == []
        about = answer["result"]["_meta"]["lembas"]
        assert about["capabilities"] == [*CAPABILITIES, "directories"]
        assert about["connection"] is None


@pytest.mark.spec(
    "versions: initialize says protocol 3",
    "initialize: loadSession false",
    "initialize: limits on the link",
    "initialize: connection",
    "capability sessions",
    "capability status",
    "capability turns",
    "capability compact",
    "capability steer",
    "capability configure",
    "capability delete",
    "capability title",
    "capability files",
    "capability commands",
    "capability attachments",
    "capability model",
    "capability rewind",
    "capability context",
    "capability prototypes",
    "capability library",
    "capability terminal",
    "capability shell",
)
async def test_initialize_says_what_this_build_does(hub: RunningHub) -> None:
    connection = RecordingConnection()
    hub.link.link_up(connection)
    hub.link.link_message(connection, jsonrpc.request(0, "initialize", LEMBAS))
    result = connection.sent[1]["result"]
    assert result["agentCapabilities"]["loadSession"] is False
    about = result["_meta"]["lembas"]
    assert about["capabilities"] == [*CAPABILITIES, "directories", "terminal", "shell"]
    assert about["limits"] == {"roots": ["~/work"], "max_mode": "manual", "scheduled": False}
    assert (about["protocol"], about["connection"]) == (3, "example")


@pytest.mark.spec("initialize: limits null elsewhere")
async def test_a_local_client_has_no_limits(hub: RunningHub) -> None:
    client = await hub.client(initialize=False)
    about = (await client.ask("initialize", LEMBAS))["_meta"]["lembas"]
    assert about["limits"] is None
    assert about["capabilities"] == [*CAPABILITIES, "terminal", "shell"]


async def test_the_link_cannot_ask_for_what_is_the_machines(hub: RunningHub) -> None:
    connection = linked(hub)
    ask(hub, connection, "_hub/stop", {})
    assert connection.sent[0]["error"]["code"] == -32601


@pytest.mark.spec("terminals close with the link")
async def test_the_links_terminal_hangs_up_with_the_link(hub: RunningHub) -> None:
    connection = linked(hub)
    ask(hub, connection, "_lembas/terminal/open", {})
    start = await hub.starter.next()
    assert start.link
    pty = await hub.process(start)
    pty.answer(await pty.next_method("_lembas/terminal/open"), {})
    await settled(pty)
    hub.link.link_down(connection, "gone")
    await pty.next(kinds.STOP)


async def test_a_new_link_gets_the_sessions_that_it_was_given(hub: RunningHub) -> None:
    worker = await session(hub, first := linked(hub))
    hub.link.link_down(first, "gone")
    await worker.next(kinds.DETACHED)
    second = linked(hub)
    await worker.next(kinds.ATTACHED)
    worker.say("on it goes")
    await settled(worker)
    assert texts(second) == ["on it goes"]
    assert texts(first) == []


class Redials:
    def __init__(self) -> None:
        self.count = 0

    def redial(self) -> None:
        self.count += 1


@pytest.mark.spec("limits: a change dials again once nothing works")
async def test_the_link_dials_again_when_what_it_said_has_changed(hub: RunningHub) -> None:
    hub.link.redialler = redials = Redials()
    worker = await session(hub, linked(hub))
    hub.settings.settings = Settings(remote=REMOTE, worker_idle_s=1.0, account=None)
    worker.state(busy=True, given=True)
    await settled(worker)
    hub.hub.refresh_settings()
    assert redials.count == 0
    worker.state(busy=False, given=True)
    await settled(worker)
    assert redials.count == 1


async def test_a_change_of_what_was_not_said_lets_the_link_be(hub: RunningHub) -> None:
    hub.link.redialler = redials = Redials()
    linked(hub)
    hub.settings.settings = Settings(
        remote=REMOTE, worker_idle_s=1.0, account=hub.settings.settings.account
    )
    hub.hub.refresh_settings()
    assert redials.count == 0


async def test_a_link_is_closed_for_a_restart_and_its_end_waited_for(hub: RunningHub) -> None:
    await hub.link.close(SOON_S)  # there is none
    connection = linked(hub)
    closing = asyncio.ensure_future(hub.link.close(SOON_S))
    await asyncio.sleep(0)
    assert connection.closed == [(1012, "lembasd is being updated")]
    hub.link.link_down(connection, "closed")
    await asyncio.wait_for(closing, SOON_S)
    # one that does not end holds nothing up
    linked(hub)
    await hub.link.close(0.01)


async def test_a_slow_link_lags_and_gets_the_rest_merged_with_its_answer_last(
    hub: RunningHub,
) -> None:
    connection = linked(hub)
    worker = await session(hub, connection)
    ask(hub, connection, "session/prompt", {"sessionId": worker.channel, "prompt": []})
    prompt = await worker.next_method("session/prompt")
    connection.has_room = False
    worker.say("big " + "x" * LAG_CHANNEL_BYTES)
    worker.say("lost ")
    worker.say("too")
    worker.answer(prompt, "done")
    await settled(worker)
    assert connection.sent == []

    connection.has_room = True
    hub.link.link_writable(connection)
    resend = await worker.next(kinds.RESEND)
    assert (resend.epoch, resend.seq) == (1, 1)
    merged = jsonrpc.notification("session/update", {"text": "lost too"})
    worker.send(
        Envelope(
            kind=kinds.RPC,
            channel=worker.channel,
            client=resend.client,
            audience=kinds.ONE,
            epoch=1,
            seq=3,
            payload=merged,
        )
    )
    worker.send(
        Envelope(kind=kinds.RESENT, channel=worker.channel, client=resend.client, epoch=1, seq=3)
    )
    await settled(worker)
    assert [text[:8] for text in texts(connection)] == ["big xxxx", "lost too", "answer 1"]


@pytest.mark.parametrize(("initialize", "told"), [(LEMBAS, []), (REPLAY, ["1:0"])])
async def test_a_link_that_takes_nothing_is_closed_for_a_while(
    hub: RunningHub, initialize: object, told: list[str]
) -> None:
    connection = linked(hub, initialize)
    worker = await session(hub, connection)
    connection.has_room = False
    for _ in range(40):
        worker.say("x" * LAG_CHANNEL_BYTES, delta=False)
    await settled(worker)
    assert connection.sent == [
        {
            "jsonrpc": "2.0",
            "method": "_hub/gap",
            "params": {"sessionId": worker.channel, "since": since},
        }
        for since in told
    ]
    assert connection.closed[0][0] == 1013


async def test_a_lagging_link_is_told_the_gap_when_the_worker_dies(hub: RunningHub) -> None:
    connection = linked(hub, REPLAY)
    worker = await session(hub, connection)
    connection.has_room = False
    worker.say("x" * (LAG_CHANNEL_BYTES + 1))
    worker.say("lost")
    await settled(worker)
    worker.close()
    await asyncio.wait_for(worker.lost, SOON_S)
    connection.has_room = True
    while len(connection.sent) < 2:
        hub.link.link_writable(connection)
        await asyncio.sleep(0)
    assert connection.sent[1]["method"] == "_hub/gap"
    assert connection.sent[1]["params"]["since"] == "1:1"


async def test_an_answer_that_a_dead_link_asked_for_goes_to_no_other(hub: RunningHub) -> None:
    first = linked(hub)
    worker = await session(hub, first)
    ask(hub, first, "session/prompt", {"sessionId": worker.channel, "prompt": []})
    asked = await worker.next_method("session/prompt")
    hub.link.link_down(first, "gone")
    second = linked(hub)
    ask(hub, second, "session/set_mode", {"sessionId": worker.channel, "modeId": "plan"})
    mode = await worker.next_method("session/set_mode")
    worker.answer(asked, "late")
    worker.answer(mode, "mode")
    await settled(worker)
    # both had the id 1
    assert second.sent == [{"jsonrpc": "2.0", "id": 1, "result": "mode"}]
    assert first.sent == []


async def test_what_an_old_connection_says_is_nobodys(hub: RunningHub) -> None:
    old = linked(hub)
    hub.link.link_down(old, "gone")
    new = linked(hub)
    ask(hub, old, "session/new", {"cwd": "/p"})
    hub.link.link_writable(old)
    hub.link.link_down(old, "again")
    assert (old.sent, new.sent) == ([], [])
    assert hub.starter.started.empty()
