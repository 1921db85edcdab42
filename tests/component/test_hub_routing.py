"""The hub's server with scripted processes and clients on its real socket."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from lembasd.hub.server import Stranger
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.ipc.framing import encode_frame
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Account, Attached, CardInfo, Need, Settings, Unknown
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.hello import Hello, SessionHello, TerminalHello
from lembasd.store.sessions import Probe
from tests.support.descriptors import none_left
from tests.support.hub_process import (
    SOON_S,
    RecordingClient,
    RunningHub,
    ScriptedProcess,
    running_hub,
)

SESSION = "ses_" + "a" * 26
OTHER = "ses_" + "b" * 26
TERMINAL = "term_" + "c" * 12


@pytest.fixture
async def hub(short_tmp: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(short_tmp) as running:
        yield running


async def refused(future: "asyncio.Future[bytes]") -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        await asyncio.wait_for(future, SOON_S)
    return caught.value


async def test_a_turn_goes_to_its_worker_and_back(hub: RunningHub) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    asked = client.hub.start("session/prompt", {"sessionId": worker.channel, "prompt": []})
    prompt = await worker.next_method("session/prompt")
    assert prompt.client == client.number
    worker.say("hello")
    assert await client.next("session/update") == {"text": "hello"}
    worker.answer(prompt, {"stopReason": "end_turn"})
    assert await asyncio.wait_for(asked, SOON_S) == b'{"stopReason":"end_turn"}'


async def test_a_worker_is_told_settings_and_client_before_the_request(hub: RunningHub) -> None:
    hub.settings.settings = Settings(account=Account(base_url="https://x", token="t"))
    client = await hub.client()
    client.hub.start("session/new", {"cwd": "/p"})
    worker = await hub.process(await hub.starter.next())
    seen = [await asyncio.wait_for(worker.inbox.get(), SOON_S) for _ in range(3)]
    assert [one.kind for one in seen] == [kinds.SETTINGS, kinds.ATTACHED, kinds.RPC]
    assert msgspec.json.decode(seen[0].payload, type=Settings) == hub.settings.settings
    assert msgspec.json.decode(seen[1].payload, type=Attached) == Attached(
        client=client.number, protocol=3, local=True, opened=True
    )
    # asked again after a refusal, it is given what is there now
    hub.settings.settings = Settings(account=Account(base_url="https://x", token="newer"))
    worker.send(Envelope(kind=kinds.NEED, payload=msgspec.json.encode(Need("account"))))
    settings = await worker.next(kinds.SETTINGS)
    assert b"newer" in settings.payload


async def test_a_hello_that_is_faster_than_the_starters_word_waits_for_it(hub: RunningHub) -> None:
    client = await hub.client()
    asked = client.hub.start("session/new", {"cwd": "/p"})
    start = await hub.starter.next()
    session = SessionHello(start.channel, 1, stored=False)
    hello = Hello(role="worker", build="x", pid=1, spawn=start.spawn, session=session)
    worker = await hub.dial(hello, start.channel)
    await client.ask("_lembas/session/status", {"sessionId": OTHER})
    assert not worker.hello.done()
    hub.hub.children.process_started(start.spawn, os.getpid())
    worker.answer(await worker.next_method("session/new"), {"sessionId": start.channel})
    await asyncio.wait_for(asked, SOON_S)


@pytest.mark.spec("versions: a client without lembas gets plain ACP")
async def test_lembas_messages_reach_lembas_clients_alone(hub: RunningHub) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    plain = await hub.client(initialize=False)
    await plain.ask("initialize", {})
    await hub.attach(plain, worker)
    worker.say("for some", audience=kinds.LEMBAS)
    worker.say("for all")
    assert await plain.next("session/update") == {"text": "for all"}
    assert await client.next("session/update") == {"text": "for some"}


@pytest.mark.spec("versions: lembas true is a client of protocol 1")
async def test_a_client_that_says_no_more_than_lembas_is_one_of_protocol_1(hub: RunningHub) -> None:
    client = await hub.client(initialize=False)
    await client.ask("initialize", {"clientCapabilities": {"_meta": {"lembas": True}}})
    asked = client.hub.start("session/new", {"cwd": "/p"})
    worker = await hub.process(await hub.starter.next())
    attached = msgspec.json.decode((await worker.next(kinds.ATTACHED)).payload, type=Attached)
    worker.answer(await worker.next_method("session/new"), {"sessionId": worker.channel})
    await asyncio.wait_for(asked, SOON_S)
    assert attached == Attached(client=client.number, protocol=1, local=True, opened=True)


@pytest.mark.spec("card: keyed by its call")
async def test_a_card_is_asked_answered_and_taken_down_elsewhere(hub: RunningHub) -> None:
    first = await hub.client()
    worker = await hub.session(first)
    second = await hub.client()
    await hub.attach(second, worker)
    card = CardInfo(id="x", tool_call_id="call1")
    worker.send(
        Envelope(kind=kinds.CARD, channel=worker.channel, payload=msgspec.json.encode(card))
    )
    for number, client in enumerate((first, second)):
        request = jsonrpc.request(
            f"{worker.channel}:1:{number}", "session/request_permission", {"toolCallId": "call1"}
        )
        worker.send(
            Envelope(
                kind=kinds.RPC,
                channel=worker.channel,
                client=client.number,
                audience=kinds.ONE,
                card="call1",
                payload=request,
            )
        )
    asked = await first.next_message("session/request_permission")
    await second.next_message("session/request_permission")
    first.hub.reply(asked, {"outcome": {"outcome": "selected", "optionId": "once"}})
    reply = await worker.next(kinds.RPC)
    while jsonrpc.peek(reply.payload).method:
        reply = await worker.next(kinds.RPC)
    assert (reply.client, reply.request) == (first.number, 0)
    settled = jsonrpc.notification("_lembas/permission/settled", {"toolCallId": "call1"})
    worker.send(
        Envelope(
            kind=kinds.SETTLED,
            channel=worker.channel,
            client=first.number,
            card="call1",
            payload=settled,
        )
    )
    assert await second.next("_lembas/permission/settled") == {
        "sessionId": worker.channel,
        "toolCallId": "call1",
        "_meta": {"lembas": {"by": "terminal"}},
    }
    worker.say("on")
    message = await first.next_message("session/update")
    assert message.method == "session/update"
    assert first.inbox.empty()


async def test_a_worker_that_dies_is_an_error_for_its_client_and_nothing_for_others(
    hub: RunningHub,
) -> None:
    client, other = await hub.client(), await hub.client()
    worker, healthy = await hub.session(client), await hub.session(other)
    asked = client.hub.start("session/prompt", {"sessionId": worker.channel, "prompt": []})
    await worker.next_method("session/prompt")
    worker.close()
    error = await refused(asked)
    assert (error.code, error.data) == (-32603, {"reason": "worker_ended"})
    asked = other.hub.start("session/prompt", {"sessionId": healthy.channel, "prompt": []})
    healthy.answer(await healthy.next_method("session/prompt"), "fine")
    assert await asyncio.wait_for(asked, SOON_S) == b'"fine"'


async def test_an_end_is_told_after_the_last_words_were_read(hub: RunningHub) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    asked = client.hub.start("session/prompt", {"sessionId": worker.channel, "prompt": []})
    prompt = await worker.next_method("session/prompt")
    hub.hub.children.process_ended(os.getpid(), 0)
    worker.answer(prompt, "last words")
    worker.close()
    assert await asyncio.wait_for(asked, SOON_S) == b'"last words"'


async def test_an_adopted_worker_brings_its_session(hub: RunningHub) -> None:
    hub.stores.known[SESSION] = Probe(exists=True, locked_by=os.getpid())
    session = SessionHello(SESSION, 3, seq=40, title="old", turn_id="t1")
    worker = await hub.dial(
        Hello(role="worker", build="x", pid=os.getpid(), session=session), SESSION
    )
    assert (await asyncio.wait_for(worker.hello, SOON_S)).refused == ""
    assert hub.starter.watched == [os.getpid()]
    client = await hub.client()
    assert (await hub.attach(client, worker, since="3:38")).since == "3:38"
    worker.send(
        Envelope(
            kind=kinds.RPC,
            channel=SESSION,
            client=client.number,
            audience=kinds.ONE,
            epoch=3,
            seq=39,
            payload=jsonrpc.notification("session/update", {"text": "missed"}),
        )
    )
    worker.send(Envelope(kind=kinds.RESENT, channel=SESSION, client=client.number))
    assert await client.next("session/update") == {"text": "missed"}
    assert client.hub.seen(SESSION) == "3:39"
    assert client.hub.seen(OTHER) is None
    worker.say("new")
    assert await client.next("session/update") == {"text": "new"}


async def test_a_worker_without_its_sessions_lock_is_refused(hub: RunningHub) -> None:
    hub.stores.known[SESSION] = Probe(exists=True, locked_by=1)
    worker = await hub.dial(
        Hello(role="worker", build="x", pid=os.getpid(), session=SessionHello(SESSION, 3)), SESSION
    )
    hello = await asyncio.wait_for(worker.hello, SOON_S)
    assert "lock" in hello.refused
    await asyncio.wait_for(worker.lost, SOON_S)


async def test_another_protocol_is_refused_with_what_to_do(hub: RunningHub) -> None:
    peer = await hub.dial(Hello(role="client", build="x", pid=1, protocol=(8, 9)), "")
    assert (await asyncio.wait_for(peer.hello, SOON_S)).refused == (
        "this hub speaks protocol 1 to 1 and the client that connects 8 to 9; the hub is the older one: "
        "end it with `lembasd stop`, then start it again"
    )
    # a process that runs is told of, as long as it does; a command is none
    assert hub.server.strangers() == []
    stranger = Hello(role="pty", build="9", pid=1, protocol=(8, 9), terminal=TerminalHello("t"))
    await asyncio.wait_for((await hub.dial(stranger, "")).hello, SOON_S)
    assert hub.server.strangers() == [Stranger("pty", "t", os.getpid(), "9", (8, 9))]


async def test_garbage_ends_its_own_connection_and_no_other(hub: RunningHub) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    reader, writer = await asyncio.open_unix_connection(str(hub.paths.socket))
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await asyncio.wait_for(reader.read(), SOON_S) == b""
    writer.close()
    bad = await hub.client()
    peer = hub_peer(bad.hub)
    peer.write(encode_frame(Envelope(kind=kinds.RPC, payload=b"{"))[:-3] + b"\xff\xff\xff")
    asked = client.hub.start("session/prompt", {"sessionId": worker.channel, "prompt": []})
    worker.answer(await worker.next_method("session/prompt"), "fine")
    assert await asyncio.wait_for(asked, SOON_S) == b'"fine"'


def hub_peer(client: HubClient) -> asyncio.Transport:
    """The transport below a client, to send what the client itself never would."""
    transport = client._peer._transport if client._peer is not None else None
    assert transport is not None
    return transport


async def test_an_unknown_frame_is_answered_and_changes_nothing(hub: RunningHub) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    worker.send(Envelope(kind="news"))
    answer = await worker.next(kinds.UNKNOWN)
    assert msgspec.json.decode(answer.payload, type=Unknown) == Unknown("news")


@pytest.mark.parametrize("kind", [kinds.STATE, kinds.CARD])
async def test_a_frame_that_cannot_be_read_drops_its_worker(hub: RunningHub, kind: str) -> None:
    worker = await hub.session(await hub.client())
    worker.send(Envelope(kind=kind, payload=b"{"))
    await asyncio.wait_for(worker.lost, SOON_S)


async def test_a_worker_speaks_for_its_own_session_alone(hub: RunningHub) -> None:
    worker = await hub.session(await hub.client())
    worker.send(Envelope(kind=kinds.RPC, channel=OTHER, audience=kinds.ALL, payload=b"{}"))
    await asyncio.wait_for(worker.lost, SOON_S)


async def test_text_that_is_no_message_is_answered(hub: RunningHub) -> None:
    client = await hub.client()
    for text, code in ((b"{", -32700), (b"[]", -32600)):
        hub_peer(client.hub).write(encode_frame(Envelope(kind=kinds.RPC, payload=text)))
        answer = await client_error(client.hub)
        assert answer["error"]["code"] == code


async def client_error(client: HubClient) -> dict[str, dict[str, int]]:
    """The next answer that belongs to no request (its id is null)."""
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    client._waiting[b"null"] = future
    error = await refused(future)
    return {"error": {"code": error.code}}


async def test_status_of_a_session_nobody_knows_is_that_it_does_not_exist(hub: RunningHub) -> None:
    client = await hub.client()
    status = await client.ask("_lembas/session/status", {"sessionId": SESSION})
    assert status["exists"] is False
    error = await refused(client.hub.start("session/prompt", {"sessionId": SESSION, "prompt": []}))
    assert error.code == -32602


async def test_the_end_of_what_was_here_before_is_not_the_end_of_what_was_asked_for(
    hub: RunningHub,
) -> None:
    """As after a reload: the utility worker of the version before ends while this one's is on its way."""
    earlier = 1  # any pid but this process' own, which plays the next one
    hub.hub.children.take_over({earlier: "utility"})
    assert hub.starter.watched == [earlier]
    client = await hub.client()
    session = "ses_" + "h" * 26
    hub.stores.known[session] = Probe(exists=True)
    asked = client.hub.start("_lembas/session/history", {"sessionId": session})
    utility = await hub.process(await hub.starter.next())
    assert hub.hub.children.started_pid("utility") == os.getpid()
    hub.hub.children.process_ended(earlier, None)
    utility.answer(await utility.next(kinds.RPC), {"turns": []})
    assert await asyncio.wait_for(asked, SOON_S) == b'{"turns":[]}'


async def test_history_of_a_closed_session_comes_from_the_utility_worker(hub: RunningHub) -> None:
    hub.stores.known[SESSION] = Probe(exists=True)
    client = await hub.client()
    asked = client.hub.start("_lembas/session/history", {"sessionId": SESSION})
    start = await hub.starter.next()
    assert (start.role, start.channel) == ("utility", "utility")
    utility = await hub.process(start)
    request = await utility.next(kinds.RPC)
    assert request.channel == SESSION
    utility.answer(request, {"turns": []})
    assert await asyncio.wait_for(asked, SOON_S) == b'{"turns":[]}'
    utility.send(Envelope(kind=kinds.LEAVING))
    await utility.next(kinds.LEAVE)


async def test_a_terminal_is_opened_typed_into_and_shown(hub: RunningHub) -> None:
    client = await hub.client()
    asked = client.hub.start("_lembas/terminal/open", {"cols": 90})
    start = await hub.starter.next()
    assert (start.role, start.link) == ("pty", False)
    pty = await hub.process(start)
    request = await pty.next_method("_lembas/terminal/open")
    pty.answer(request, {"terminalId": start.channel})
    await asyncio.wait_for(asked, SOON_S)
    keys = {"terminalId": start.channel, "data": "bHM="}
    client.hub.notify("_lembas/terminal/input", keys)
    assert (await pty.next_method("_lembas/terminal/input")).request == 0
    output = Envelope(
        kind=kinds.RPC,
        channel=start.channel,
        audience=kinds.ONE,
        client=request.client,
        payload=jsonrpc.notification("_lembas/terminal/output", keys),
    )
    pty.send(output)
    assert await client.next("_lembas/terminal/output") == keys
    client.hub.close()
    await pty.next(kinds.DETACHED)
    # nobody's any more: it is left out, and the process asked nothing
    pty.send(output)
    pty.send(Envelope(kind=kinds.DISCARD, channel=start.channel))
    pty.send(Envelope(kind=kinds.PING))
    await pty.next(kinds.PONG)


async def test_keys_and_output_pass_as_they_are_where_the_client_asked_for_it(
    hub: RunningHub,
) -> None:
    client, pty = await typing_client(hub)
    client.hub.type(pty.channel, b"\xff\0")
    typed = await pty.next(kinds.INPUT)
    assert typed == Envelope(
        kind=kinds.INPUT, channel=pty.channel, client=client.number, payload=b"\xff\0"
    )
    output = Envelope(
        kind=kinds.OUTPUT,
        channel=pty.channel,
        audience=kinds.ONE,
        client=client.number,
        delta=True,
        offset=7,
        payload=b"\xfe",
    )
    pty.send(output)
    assert await asyncio.wait_for(client.output.get(), SOON_S) == (pty.channel, 7, b"\xfe")


async def test_keys_for_what_a_client_does_not_look_at_or_did_not_ask_for_are_nobodys(
    hub: RunningHub,
) -> None:
    client, pty = await typing_client(hub)
    worker = await hub.session(client)
    client.hub.type(worker.channel, b"to a session")
    client.hub.type("term_" + "f" * 12, b"to none")
    stranger = await hub.client(asks={"terminal_frames": True})
    stranger.hub.type(pty.channel, b"not mine")
    plain = await hub.client()
    plain.hub.start("_lembas/terminal/attach", {"terminalId": pty.channel})
    await pty.next_method("_lembas/terminal/attach")
    plain.hub.type(pty.channel, b"not asked for")
    plain.hub.notify("_lembas/terminal/input", {"terminalId": pty.channel, "data": "bHM="})
    client.hub.type(pty.channel, b"mine")
    seen = [await asyncio.wait_for(pty.inbox.get(), SOON_S) for _ in range(2)]
    assert sorted(one.kind for one in seen) == [kinds.INPUT, kinds.RPC]
    assert [one.payload for one in seen if one.kind == kinds.INPUT] == [b"mine"]
    assert worker.inbox.empty()


async def typing_client(hub: RunningHub) -> tuple[RecordingClient, ScriptedProcess]:
    """A client that takes output as it is, with a terminal that it has opened."""
    client = await hub.client(asks={"terminal_frames": True})
    asked = client.hub.start("_lembas/terminal/open", {})
    pty = await hub.process(await hub.starter.next())
    seen = [await asyncio.wait_for(pty.inbox.get(), SOON_S) for _ in range(2)]
    attached = msgspec.json.decode(seen[1].payload, type=Attached)
    assert (attached.client, attached.flow, attached.frames) == (client.number, True, True)
    request = await pty.next_method("_lembas/terminal/open")
    pty.answer(request, {"terminalId": pty.channel})
    await asyncio.wait_for(asked, SOON_S)
    return client, pty


async def test_a_terminal_of_an_earlier_hub_is_adopted(hub: RunningHub) -> None:
    hello = Hello(
        role="pty", build="x", pid=os.getpid(), terminal=TerminalHello(TERMINAL, cols=132)
    )
    pty = await hub.dial(hello, TERMINAL)
    await pty.next(kinds.SETTINGS)
    client = await hub.client()
    asked = client.hub.start("_lembas/terminal/attach", {"terminalId": TERMINAL, "offset": 7})
    attached = msgspec.json.decode((await pty.next(kinds.ATTACHED)).payload, type=Attached)
    assert (attached.local, attached.flow, attached.asks) == (True, True, True)
    pty.answer(await pty.next_method("_lembas/terminal/attach"), {"terminalId": TERMINAL})
    assert await asyncio.wait_for(asked, SOON_S) == b'{"terminalId":"%b"}' % TERMINAL.encode()


async def test_a_hub_out_of_descriptors_refuses_nobody_for_what_it_cannot_see(
    hub: RunningHub,
) -> None:
    hello = Hello(role="pty", build="x", pid=os.getpid(), terminal=TerminalHello(TERMINAL))
    # one for each end of the connection
    with none_left(but=2):
        pty = await hub.dial(hello, TERMINAL)
        await asyncio.wait_for(pty.lost, SOON_S)
    assert not pty.hello.done()
    again = await hub.dial(hello, TERMINAL)
    await again.next(kinds.SETTINGS)


async def test_a_start_that_fails_says_why(hub: RunningHub) -> None:
    client = await hub.client()
    asked = client.hub.start("session/new", {"cwd": "/p"})
    start = await hub.starter.next()
    hub.hub.children.process_failed(start.spawn, "no memory")
    error = await refused(asked)
    assert "no memory" in error.message
    assert error.data == {"reason": "start_failed", "retryable": True}


async def test_a_process_that_has_connected_again_replaces_its_old_connection(
    hub: RunningHub,
) -> None:
    client = await hub.client()
    worker = await hub.session(client)
    hello = Hello(
        role="worker", build="x", pid=os.getpid(), session=SessionHello(worker.channel, 1)
    )
    again = await hub.dial(hello, worker.channel)
    await again.next(kinds.ATTACHED)
    await asyncio.wait_for(worker.lost, SOON_S)
    again.say("still here")
    assert await client.next("session/update") == {"text": "still here"}


async def test_a_client_of_another_hub_role_is_refused(hub: RunningHub) -> None:
    peer = await hub.dial(Hello(role="hub", build="x", pid=1), "")
    assert (await asyncio.wait_for(peer.hello, SOON_S)).refused


async def test_nobody_listens_after_the_hub_is_gone(short_tmp: Path) -> None:
    async with running_hub(short_tmp) as running:
        socket = running.paths.socket
    with pytest.raises(NoHub):
        await HubClient().connect(socket)
