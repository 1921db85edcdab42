"""link.md, "Versions and discovery"."""

from typing import Any

import msgspec
import pytest

from tests.support.bare_client import BareClient
from tests.support.daemon import Client
from tests.support.fake_instance import TOKEN, FakeInstance
from tests.support.linked_hub import LinkedHub, named

OLD: dict[str, Any] = {"name": "Old", "version": "1.9", "protocol": 1, "protocols": [1, 2]}
INITIALIZE = '{"protocolVersion":1,"clientCapabilities":%s}'


def too_old(url: str) -> str:
    return (
        f"{url} runs LLeMbas 1.9, which speaks link protocol 1 and 2; this LLeMbas CLI needs a LLeMbas 2.0 server "
        "(protocol 3) — update the server, or use LLeMbas CLI 1.x with it"
    )


@pytest.mark.spec(
    "versions: a server without 3 is refused at login", "versions: protocols counts before protocol"
)
async def test_a_login_is_refused_where_discovery_lists_no_3(own_hub: LinkedHub) -> None:
    install = own_hub.install
    before = install.paths.credentials_file.read_bytes()
    async with FakeInstance() as other:
        login = ("login", "--token-stdin", "--server", other.url)
        for said in (OLD, {**OLD, "protocol": 3}):
            other.discovery = said
            done = await install.run(*login, stdin=TOKEN.encode())
            assert (done.returncode, done.stderr.decode()) == (4, f"{too_old(other.url)}\n")
        assert install.paths.credentials_file.read_bytes() == before
        other.discovery = {"version": "2.0", "protocol": 1, "protocols": [3]}
        assert (await install.run(*login, stdin=TOKEN.encode())).returncode == 0
        await BareClient.of(other)


async def until_refused(hub: LinkedHub) -> dict[str, Any]:
    while True:
        link: dict[str, Any] = (await hub.install.status())["link"]
        if link["state"] == "refused":
            return link


@pytest.mark.spec("versions: a server without 3 is refused at each dial")
async def test_a_server_that_was_put_back_is_told_of_at_the_next_dial_and_the_link_stops(
    own_hub: LinkedHub,
) -> None:
    own_hub.instance.discovery = OLD
    own_hub.client.device.drop()
    link = await until_refused(own_hub)
    assert link["reason"] == too_old(own_hub.instance.url)
    assert len(own_hub.instance.devices) == 1


@pytest.mark.spec("versions: close 4400 ends the dialling")
async def test_a_link_that_is_closed_with_4400_is_not_dialled_again(own_hub: LinkedHub) -> None:
    dials = own_hub.instance.asked_so_far("/api/devices/link")
    own_hub.client.device.close(4400, "update LLeMbas CLI to 2.0")
    link = await until_refused(own_hub)
    assert "update LLeMbas CLI to 2.0" in link["reason"]
    assert own_hub.instance.asked_so_far("/api/devices/link") == dials


@pytest.mark.spec("versions: hello says protocol 3", "versions: initialize says protocol 3")
async def test_hello_and_initialize_say_protocol_3(hub: LinkedHub) -> None:
    assert hub.client.hello["protocol"] == 3
    assert hub.client.about["_meta"]["lembas"]["protocol"] == 3


#: what each kind of client says, and whether it is LLeMbas
KINDS = {
    '{"_meta":{"lembas":true}}': True,
    '{"_meta":{"lembas":{}}}': True,
    "{}": False,
}


@pytest.mark.spec(
    "versions: a client without lembas gets plain ACP",
    "versions: lembas true is a client of protocol 1",
)
async def test_only_a_client_that_says_lembas_is_told_of_events(own_hub: LinkedHub) -> None:
    told = {}
    for number, capabilities in enumerate(KINDS):
        mode = ("edit", "auto")[number % 2]
        client = await own_hub.configured(INITIALIZE % capabilities, max_mode=mode)
        session = await own_hub.new()
        await own_hub.turn(session, "t1")
        # a turn's events come before its answer
        told[capabilities] = {message.method for message in client.told}
    plain = {"session/update"}
    assert told == {
        said: plain | {"_lembas/event"} if lembas else plain for said, lembas in KINDS.items()
    }


@pytest.mark.spec("versions: a request before initialize is -32600")
async def test_what_comes_before_initialize_is_refused_and_the_link_stays(
    own_hub: LinkedHub,
) -> None:
    own_hub.client.device.drop()
    client = BareClient(await own_hub.instance.device())
    own_hub.clients.append(client)
    refused = '{"code":-32600,"message":"initialize first"}'
    for method, params in (
        ("session/new", f'{{"cwd":"{own_hub.project}","mcpServers":[]}}'),
        ("_lembas/directories", "{}"),
    ):
        assert await client.ask(method, params) == refused
    assert '"protocol":3' in await client.ask("initialize", INITIALIZE % "{}")
    assert await client.ask("_lembas/directories", "{}") != refused
    assert [message.method for message in client.told] == ["_lembas/hello"]


@pytest.mark.spec("versions: an unknown method is -32601")
async def test_what_this_build_does_not_list_it_does_not_know(hub: LinkedHub) -> None:
    session = await hub.new()
    unlisted = {
        "jobs": ["jobs", "job/output", "job/stop", "job/send", "job/transcript"],
        "tree": ["team", "team/transcript", "team/findings", "team/stop"],
        "scheduled": ["monitor"],
        "none": ["nothing"],
    }
    listed = hub.client.about["_meta"]["lembas"]["capabilities"]
    for capability, methods in unlisted.items():
        assert capability not in listed
        for method in methods:
            answer = await hub.client.ask(f"_lembas/{method}", named(session, id="x"))
            assert answer == f'{{"code":-32601,"message":"_lembas/{method} is unknown here"}}'
    for method in ("session/load", "session/list", "session/resume", "session/close", "_hub/stop"):
        answer = await hub.client.ask(method, named(session))
        assert answer == f'{{"code":-32601,"message":"{method} is unknown here"}}'


@pytest.mark.spec("versions: a batch is refused once")
async def test_a_batch_is_refused_once_and_what_is_no_json_too(hub: LinkedHub) -> None:
    batch = '{"jsonrpc":"2.0","id":900,"method":"_lembas/directories","params":{}}'
    for text in (f"[{batch},{batch}]", "[]", "{"):
        hub.client.send(text)
        answer = (await hub.client.whole(None)).value
        assert answer["error"]["code"] in (-32600, -32700)
    assert "900" not in hub.client.answered


async def test_what_the_link_brings_and_nobody_asked_for_changes_nothing(hub: LinkedHub) -> None:
    session = await hub.new()
    for text in (
        '{"jsonrpc":"2.0","id":"nobody:1:1","result":{"outcome":{"outcome":"cancelled"}}}',
        '{"jsonrpc":"2.0","id":12345,"error":{"code":-32601,"message":"no"}}',
        '{"jsonrpc":"2.0","method":"_lembas/hello","params":{"protocol":3}}',
        '{"jsonrpc":"2.0","method":"no/such"}',
    ):
        hub.client.send(text, judged=False)
    assert '"stopReason":"end_turn"' in await hub.turn(session, "t1")


@pytest.mark.spec("versions: an id comes back as it was sent")
async def test_an_id_comes_back_as_it_was_sent(hub: LinkedHub) -> None:
    for given in ('"a-\\u00e4"', "0", "-7", "9007199254740993", '""'):
        hub.client.send(
            f'{{"jsonrpc":"2.0","id":{given},"method":"_lembas/commands","params":{{}}}}'
        )
        answer = await hub.client.whole(msgspec.json.decode(given))
        assert answer.text.startswith(f'{{"jsonrpc":"2.0","id":{given},"error":')


async def test_a_person_on_this_machine_is_no_client_of_the_link(hub: LinkedHub) -> None:
    local: Client = await hub.install.client()
    about = await local.initialize()
    assert about["_meta"]["lembas"]["limits"] is None
    local.hub.close()
