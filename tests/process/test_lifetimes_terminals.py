"""What becomes of terminals when something else ends, with the whole service running."""

import asyncio
import base64
import os
import signal
from typing import Any

import msgspec
import psutil
import pytest

from lembasd.protocol.jsonrpc import Message
from tests.support.daemon import Client, Install, gone

pytestmark = pytest.mark.process


async def start_hub(install: Install) -> None:
    """A hub whose shells read no startup files of the person's."""
    install.environment["HOME"] = str(install.base)
    await install.start_hub()


async def opened(install: Install) -> tuple[Client, str, int]:
    """A client with an open terminal in the project: its id and its shell's pid."""
    client = await install.client()
    await client.initialize()
    result = await client.ask("_lembas/terminal/open", {"cwd": str(install.project)})
    shell = (await install.milestones.wait("pty.shell_started"))["shell_pid"]
    return client, result["terminalId"], shell


def type_into(client: Client, terminal: str, text: str) -> None:
    data = base64.b64encode(text.encode()).decode()
    client.hub.notify("_lembas/terminal/input", {"terminalId": terminal, "data": data})


async def shows(client: Client, text: bytes) -> None:
    """Wait until the terminal has shown `text`."""
    seen = b""
    async with asyncio.timeout(20):
        while text not in seen:
            message = await client.messages.get()
            if message.method == "_lembas/terminal/output":
                seen += base64.b64decode(params_of(message)["data"])


async def exit_of(client: Client) -> int | None:
    async with asyncio.timeout(20):
        while True:
            message = await client.messages.get()
            if message.method == "_lembas/terminal/exit":
                code: int | None = params_of(message)["code"]
                return code


def params_of(message: Message) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(message.params)
    return value


async def test_a_command_runs_in_a_terminal_and_its_exit_is_told(install: Install) -> None:
    await start_hub(install)
    client, terminal, shell = await opened(install)
    type_into(client, terminal, "echo $((40+2))-is-it; exit 5\n")
    await shows(client, b"42-is-it")
    assert await exit_of(client) == 5
    await gone(shell)
    await install.stop()


async def test_a_terminal_outlives_its_hub_and_is_adopted_by_the_next(install: Install) -> None:
    await start_hub(install)
    _, terminal, shell = await opened(install)
    await install.kill_hub()
    await install.start_hub()
    await install.milestones.wait("pty.connected", terminal_id=terminal)
    client = await install.client()
    await client.initialize()
    async with asyncio.timeout(20):
        while not (await install.status())["terminals"]:
            pass
    await client.ask("_lembas/terminal/attach", {"terminalId": terminal})
    type_into(client, terminal, "echo st''ill $$\n")
    await shows(client, f"still {shell}".encode())
    await install.stop()


async def test_a_killed_pty_takes_its_shell_along_and_its_client_is_told(install: Install) -> None:
    await start_hub(install)
    client, terminal, shell = await opened(install)
    type_into(client, terminal, "sleep 600 &\n")
    (one,) = (await install.status())["terminals"]
    assert one["terminal_id"] == terminal
    os.kill(one["pid"], signal.SIGKILL)
    assert await exit_of(client) is None
    await gone(shell)
    await install.stop()


async def test_a_stop_ends_terminals_and_what_runs_in_them(install: Install) -> None:
    await start_hub(install)
    client, terminal, shell = await opened(install)
    type_into(client, terminal, "echo be''gun; sleep 600\n")
    await shows(client, b"begun")
    await install.stop()
    assert not psutil.pid_exists(shell)


async def test_a_killed_zygote_harms_no_terminal_and_the_next_starts_more(
    zygote_install: Install,
) -> None:
    install = zygote_install
    await start_hub(install)
    client, terminal, _ = await opened(install)
    (zygote,) = [one["pid"] for one in (await install.status())["zygotes"] if one["kind"] == "pty"]
    os.kill(zygote, signal.SIGKILL)
    type_into(client, terminal, "echo st''ill\n")
    await shows(client, b"still")
    second, _, _ = await opened(install)
    type_into(client, terminal, "exit 6\n")
    assert await exit_of(client) == 6
    second.hub.close()
    await install.stop()
