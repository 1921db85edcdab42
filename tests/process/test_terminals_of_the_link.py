"""link.md, `_lembas/terminal/*`: shell integration over the link as text, and that terminals leave nothing behind."""

import asyncio
import os
import sys
from contextlib import suppress

import msgspec
import psutil
import pytest

from tests.support.bare_link import BareLink
from tests.support.daemon import Client, Install
from tests.support.prompt_marks import commands, marks, places, waits

pytestmark = pytest.mark.process

#: rounds of open and close after which nothing may be left
ROUNDS = 200
#: terminals of a client at a time
AT_ONCE = 4


def request(message_id: int, method: str, params: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":{message_id},"method":"{method}","params":{params}}}'.encode()


@pytest.mark.spec(
    "capability shell",
    "terminal/open: shell",
    "terminal/open: integration",
    "shell integration: OSC 133 and OSC 7",
)
async def test_a_shell_is_named_and_its_prompts_are_marked(zygote_install: Install) -> None:
    install = zygote_install
    async with BareLink(install) as link:
        assert (
            "terminal" in link.about["capabilities"],
            "shell" in link.about["capabilities"],
        ) == (
            True,
            True,
        )
        opened = await link.ask(
            request(1, "_lembas/terminal/open", f'{{"cwd":"{install.project}"}}')
        )
        terminal = msgspec.json.decode(opened)["result"]["terminalId"]
        kind = msgspec.json.decode(opened)["result"]["shell"]
        marked = "true" if kind in {"bash", "zsh", "fish"} else "false"
        assert opened.decode() == (
            f'{{"jsonrpc":"2.0","id":1,"result":{{"terminalId":"{terminal}",'
            f'"cwd":"{install.project}","cols":80,"rows":24,'
            f'"shell":"{kind}","integration":{marked}}}}}'
        )
        if marked == "false":
            pytest.skip("the login shell of this user marks nothing")
        output = b""
        for typed in ("", "ZmFsc2UK"):  # nothing yet, then `false`
            if typed:
                data = f'{{"terminalId":"{terminal}","data":"{typed}"}}'
                link.device.send(
                    f'{{"jsonrpc":"2.0","method":"_lembas/terminal/input","params":{data}}}'.encode()
                )
            ended = 2 if typed else 0
            while len(commands(output)) < ended or not waits(output):
                said = await link.said("_lembas/terminal/output")
                output += msgspec.convert(said["data"], bytes)
        assert marks(output) == ["A", "B", "C", "D;1", "A", "B"]
        assert places(output) == 2 * [f"file://{os.uname().nodename}{install.project}"]


@pytest.mark.spec("capability shell")
async def test_without_terminals_there_is_no_shell(zygote_install: Install) -> None:
    install = zygote_install
    install.configure(terminal=False)
    async with BareLink(install) as link:
        assert {"terminal", "shell"} & set(link.about["capabilities"]) == set()


@pytest.mark.spec("terminal/open: integration")
async def test_the_configuration_turns_the_marks_off(zygote_install: Install) -> None:
    install = zygote_install
    install.configure(terminal_integration=False)
    async with BareLink(install) as link:
        opened = await link.ask(request(1, "_lembas/terminal/open", "{}"))
        assert msgspec.json.decode(opened)["result"]["integration"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="counts what /proc and /dev/pts show")
async def test_two_hundred_rounds_leave_no_process_descriptor_or_pts(
    zygote_install: Install,
) -> None:
    install = zygote_install
    install.environment["HOME"] = str(install.base)
    await install.start_hub()
    for kind in ("worker", "pty"):
        await install.milestones.wait("zygote.ready", kind=kind)
    clients = [await install.client() for _ in range(AT_ONCE)]
    for client in clients:
        await client.initialize()
    await asyncio.gather(*(open_and_close(client, 2) for client in clients))
    before = await settled(install)
    await asyncio.gather(*(open_and_close(client, ROUNDS // AT_ONCE) for client in clients))
    assert await settled(install) == before
    await install.stop()


async def open_and_close(client: Client, rounds: int) -> None:
    for number in range(rounds):
        opened = await client.ask("_lembas/terminal/open", {})
        about = {"terminalId": opened["terminalId"]}
        if number % 2:
            client.hub.notify("_lembas/terminal/input", {**about, "data": "c2xlZXAgNjAwICYK"})
        client.hub.notify("_lembas/terminal/close", about)
        while (await client.messages.get()).method != "_lembas/terminal/exit":
            pass


async def settled(install: Install) -> dict[str, int]:
    """What the service holds once it has no terminal: its processes, and the descriptors of each.

    A terminal of the system is there as long as a descriptor of it, so they are counted too.
    """
    assert install.hub is not None
    hub = psutil.Process(install.hub.pid)
    async with asyncio.timeout(20):
        while (await install.status())["terminals"]:
            pass
        while True:
            with suppress(psutil.NoSuchProcess):  # gone while it was looked at: look again
                left = [hub, *hub.children(recursive=True), *of_the_shells(install)]
                if not {one.name() for one in left} & {"bash", "sleep"}:
                    return {str(one.pid): one.num_fds() for one in left}


def of_the_shells(install: Install) -> list[psutil.Process]:
    """What a terminal has started, whoever its parent is by now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            variables = process.environ()
            own = variables.get("LEMBAS_HOME") == install.environment["LEMBAS_HOME"]
            if own and variables.get("COLORTERM") == "truecolor":
                found.append(process)
    return found
