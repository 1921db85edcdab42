"""link.md, `_lembas/hello`: what a device says of its limits, and that they hold at each request as they are then."""

import socket
import sys
from typing import Any

import msgspec
import pytest

from lembasd import __version__
from tests.support.linked_hub import CHAT, LinkedHub, linked_hub, named

HOST = socket.gethostname()


def refusal(message: str, reason: str) -> str:
    return f'{{"code":-32602,"message":"{message}","data":{{"reason":"{reason}"}}}}'


@pytest.mark.spec(
    "hello: comes once and first",
    "hello: version",
    "hello: harness_spec",
    "hello: device",
    "hello: roots",
    "hello: max_mode",
    "hello: require_trust",
    "hello: scheduled",
)
async def test_hello_is_the_first_message_of_every_link_and_comes_once(own_hub: LinkedHub) -> None:
    for client in (own_hub.client, await own_hub.configured(max_mode="manual", require_trust=True)):
        spec = client.hello["harness_spec"]
        mode, trust = ("auto", "false") if client is own_hub.clients[0] else ("manual", "true")
        # `of` has read the first message
        assert msgspec.json.encode(client.hello).decode() == (
            f'{{"protocol":3,"version":"{__version__}","harness_spec":"{spec}",'
            f'"device":{{"host":"{HOST}","platform":"{"linux" if sys.platform == "linux" else "darwin"}"}},'
            f'"limits":{{"roots":["{own_hub.install.base}"],"max_mode":"{mode}","require_trust":{trust},"scheduled":false}}}}'
        )
        await own_hub.client.ask("_lembas/directories", "{}")
        assert [one for one in client.told if one.method == "_lembas/hello"] == []


NOTHING = [
    (
        {"enabled": False},
        "remote work is off on this device; turn it on there with `lembas remote on`",
        "remote_off",
    ),
    (
        {"roots": []},
        "this device allows no folder yet; add one there with `lembas remote add DIR`",
        "folder",
    ),
]


@pytest.mark.parametrize(("remote", "message", "reason"), NOTHING)
@pytest.mark.spec(
    "hello: no roots while remote work is off", "session/new: refused without roots or remote work"
)
async def test_a_device_that_allows_nothing_links_and_refuses(
    remote: dict[str, Any], message: str, reason: str
) -> None:
    async with linked_hub(**remote) as hub:
        client = hub.client
        limits = {"roots": [], "max_mode": "auto", "require_trust": False, "scheduled": False}
        assert client.hello["limits"] == limits
        del limits["require_trust"]
        assert client.about["_meta"]["lembas"]["limits"] == limits
        project = hub.project
        for method, params in (
            ("session/new", f'{{"cwd":"{project}","mcpServers":[]}}'),
            ("_lembas/directories", f'{{"path":"{project}"}}'),
            ("_lembas/terminal/open", f'{{"cwd":"{project}"}}'),
            ("_lembas/terminal/open", "{}"),
            ("_lembas/files/search", f'{{"cwd":"{project}","query":""}}'),
            ("_lembas/commands", f'{{"cwd":"{project}"}}'),
        ):
            assert await client.ask(method, params) == refusal(message, reason), method
        places = await client.ask("_lembas/directories", "{}")
        assert places == '{"path":"","places":[]}'


@pytest.mark.spec(
    "limits: judged at each request", "limits: a change dials again once nothing works"
)
async def test_changed_limits_hold_at_once_and_are_said_once_nothing_works(
    own_hub: LinkedHub,
) -> None:
    hub, client, install = own_hub, own_hub.client, own_hub.install
    session = await hub.new()
    asked, _ = await hub.working(session, "t1")

    assert (await install.run("remote", "off")).returncode == 0
    off = "remote work is off on this device; turn it on there with `lembas remote on`"
    prompt = named(session, prompt=[{"type": "text", "text": "go"}])
    for method, params in (
        ("_lembas/steer", named(session, text="stop")),
        ("session/prompt", prompt),
        ("session/set_mode", named(session, modeId="plan")),
        ("session/new", {"cwd": str(hub.project), "mcpServers": []}),
    ):
        assert await client.ask(method, params) == refusal(off, "remote_off"), method
    assert not client.device.closed.is_set()
    device = hub.instance.devices[-1]  # of this link: the next may be there as soon as it is closed

    client.notify("session/cancel", named(session))
    assert '"stopReason":"cancelled"' in await client.answer(asked)
    await client.closed()
    assert (device.close_code, device.close_reason) == (
        1000,
        "what the device said of itself has changed",
    )
    assert (await hub.linked()).hello["limits"]["roots"] == []

    # nothing works: each change is said at once
    for command, limits in (
        (("on",), {"roots": [str(install.base)], "max_mode": "auto"}),
        (("mode", "manual"), {"roots": [str(install.base)], "max_mode": "manual"}),
        (("remove", str(install.base)), {"roots": [], "max_mode": "manual"}),
        (("add", str(hub.project)), {"roots": [str(hub.project)], "max_mode": "manual"}),
    ):
        assert (await install.run("remote", *command)).returncode == 0
        about = (await hub.linked()).about
        assert about["_meta"]["lembas"]["limits"] == {**limits, "scheduled": False}
    lowered = {"cwd": str(hub.project), "mcpServers": [], "_meta": {"mode": "auto"}}
    made = await hub.client.value("session/new", lowered)
    assert made["_meta"]["lembas"]["mode"] == "manual"


async def test_a_terminal_of_the_link_hangs_up_when_terminals_are_turned_off(
    own_hub: LinkedHub,
) -> None:
    hub, client = own_hub, own_hub.client
    session = await hub.new()
    hub.instance.mute.add(CHAT)
    hub.prompt(session, "t1")
    await hub.instance.asked(CHAT)
    terminal = (await client.value("_lembas/terminal/open", "{}"))["terminalId"]
    assert (await hub.install.run("remote", "terminal", "off")).returncode == 0
    ended = await client.said('"method":"_lembas/terminal/exit"')
    assert ended.params["terminalId"] == terminal
    refused = await client.ask("_lembas/terminal/open", "{}")
    assert "`lembas remote terminal on` allows them" in refused
