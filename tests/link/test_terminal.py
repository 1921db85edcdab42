"""link.md, `_lembas/terminal/open`, `input`, `resize`, `close`, `output` and `exit`."""

import base64
import re

import msgspec
import psutil
import pytest

from tests.support.bare_client import BareClient
from tests.support.daemon import gone
from tests.support.linked_hub import LinkedHub

OPEN = "_lembas/terminal/open"


async def opened(client: BareClient, **params: object) -> str:
    return str((await client.value(OPEN, dict(params)))["terminalId"])


def type_in(client: BareClient, terminal: str, text: str) -> None:
    data = base64.b64encode(text.encode()).decode()
    client.notify("_lembas/terminal/input", {"terminalId": terminal, "data": data})


async def shows(client: BareClient, terminal: str, text: bytes) -> bytes:
    """The terminal's output from now on until it has this text."""
    seen = b""
    while text not in seen:
        message = await client.said("_lembas/terminal/output", terminal)
        assert set(message.params) == {"terminalId", "data"}
        seen += base64.b64decode(message.params["data"], validate=True)
    return seen


async def closed(client: BareClient, terminal: str) -> str:
    client.notify("_lembas/terminal/close", {"terminalId": terminal})
    return (await client.said("_lembas/terminal/exit", terminal)).text


def ended(terminal: str, code: int) -> str:
    return (
        '{"jsonrpc":"2.0","method":"_lembas/terminal/exit","params":'
        f'{{"terminalId":"{terminal}","code":{code}}}}}'
    )


@pytest.mark.spec(
    "_lembas/terminal/open", "terminal/open: cols and rows", "terminal/open: cwd inside the roots"
)
async def test_open_says_place_and_size_within_their_bounds(hub: LinkedHub) -> None:
    base, project = hub.install.base, hub.project
    for params, cwd, size in (
        ("{}", base, (80, 24)),
        (f'{{"cwd":"{project}","cols":100,"rows":30}}', project, (100, 30)),
        (f'{{"cwd":"{project}","cols":1,"rows":1}}', project, (20, 5)),
        (f'{{"cwd":"{project}","cols":9999,"rows":9999}}', project, (500, 300)),
    ):
        answer = await hub.client.ask(OPEN, params)
        terminal = msgspec.json.decode(answer)["terminalId"]
        # `shell` and `integration` come behind these, with the capability shell
        start = f'{{"terminalId":"{terminal}","cwd":"{cwd}","cols":{size[0]},"rows":{size[1]}'
        assert answer.startswith(start), answer
        await closed(hub.client, terminal)
    outside = await hub.client.ask(OPEN, '{"cwd":"/usr"}')
    assert outside == (
        '{"code":-32602,"message":"/usr is outside the folders this device allows; add it there with '
        '`lembas remote add /usr`","data":{"reason":"folder"}}'
    )


@pytest.mark.spec("terminal/open: four a link", "terminal/open: one whose exit was told makes room")
async def test_a_link_has_four_and_a_fifth_once_one_is_closed(hub: LinkedHub) -> None:
    terminals = [await opened(hub.client) for _ in range(4)]
    assert len(set(terminals)) == 4
    assert await hub.client.ask(OPEN, "{}") == (
        '{"code":-32602,"message":"at most 4 terminals may be open; close one first"}'
    )
    await closed(hub.client, terminals[0])
    terminals[0] = await opened(hub.client)
    for terminal in terminals:
        await closed(hub.client, terminal)


@pytest.mark.spec(
    "_lembas/terminal/input",
    "_lembas/terminal/output",
    "_lembas/terminal/resize",
    "_lembas/terminal/exit",
)
async def test_what_is_typed_runs_in_the_size_that_was_said_and_its_end_comes_last(
    hub: LinkedHub,
) -> None:
    client = hub.client
    terminal = await opened(client, cwd=str(hub.project))
    for cols in (90, 1, 9999):
        client.notify("_lembas/terminal/resize", {"terminalId": terminal, "cols": cols, "rows": 40})
    type_in(client, terminal, "stty size; pwd; printf '\\377\\n'; echo $((6*7))-answer\n")
    seen = await shows(client, terminal, b"42-answer")
    for part in (b"40 500", str(hub.project).encode(), b"\xff\r\n"):
        assert part in seen
    type_in(client, terminal, "printf 'la''st'; exit 3\n")
    exit_ = await client.said("_lembas/terminal/exit", terminal)
    assert exit_.text == ended(terminal, 3)
    # nothing comes after it: what is left of it came before
    rest = [one for one in client.told if one.method == "_lembas/terminal/output"]
    assert b"last" in b"".join(base64.b64decode(one.params["data"]) for one in rest)
    type_in(client, terminal, "echo gone\n")
    assert '"places"' in await client.ask("_lembas/directories", "{}")


@pytest.mark.spec("terminal/open: a login shell of the device's user")
async def test_it_is_a_login_shell_of_the_devices_user(hub: LinkedHub) -> None:
    (hub.install.base / ".profile").write_text("PROFILE_READ=yes\n")
    (hub.install.base / ".zprofile").write_text("PROFILE_READ=yes\n")
    terminal = await opened(hub.client)
    type_in(hub.client, terminal, "echo pro''file $PROFILE_READ; tty; id -u\n")
    seen = await shows(hub.client, terminal, b"profile yes")
    if not re.search(rb"/dev/(pts/|tty)", seen):
        await shows(hub.client, terminal, b"/dev/")
    await closed(hub.client, terminal)


@pytest.mark.spec("_lembas/terminal/close")
async def test_close_hangs_up_the_shell_and_what_runs_in_it(hub: LinkedHub) -> None:
    terminal = await opened(hub.client)
    hub.install.milestones.seen.clear()
    type_in(hub.client, terminal, "echo star''ted; sleep 600\n")
    await shows(hub.client, terminal, b"started")
    sleepers = [one for one in hub.install.processes() if "sleep" in one.name()]
    assert await closed(hub.client, terminal) == ended(terminal, 129)
    for one in sleepers:
        await gone(one.pid)


@pytest.mark.spec("terminals close with the link")
async def test_every_terminal_closes_with_the_link_and_the_next_one_has_four(
    own_hub: LinkedHub,
) -> None:
    hub = own_hub
    terminals = [await opened(hub.client) for _ in range(4)]
    shells = [
        (await hub.install.milestones.wait("pty.shell_started"))["shell_pid"] for _ in terminals
    ]
    await hub.again()
    for shell in shells:
        await gone(shell)
    assert await opened(hub.client) not in terminals
    assert not [one for one in shells if psutil.pid_exists(one)]
    type_in(hub.client, terminals[0], "echo nobody\n")
    assert '"places"' in await hub.client.ask("_lembas/directories", "{}")


@pytest.mark.spec("terminal/open: only with remote.terminal")
async def test_without_remote_terminal_they_are_refused_and_not_listed(own_hub: LinkedHub) -> None:
    client = await own_hub.configured(terminal=False)
    assert "terminal" not in client.about["_meta"]["lembas"]["capabilities"]
    assert await client.ask(OPEN, "{}") == (
        '{"code":-32602,"message":"terminals are off for the instance on this device; '
        '`lembas remote terminal on` allows them","data":{"reason":"terminal_off"}}'
    )
