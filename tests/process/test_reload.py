"""`lembasd reload`: what goes on while the installed version takes over, and what is left as it was when it does not."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from lembasd.protocol.errors import RequestRefused
from tests.process.test_lifetimes_terminals import opened, shows, type_into
from tests.support.daemon import Client, Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.service_manager import ServiceManager
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]


async def reload(install: Install) -> str:
    """`lembasd reload`, which succeeds; what it said."""
    done = await install.run("reload", service=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def next_client(install: Install) -> Client:
    client = await install.client()
    await client.initialize()
    return client


@contextmanager
def callers(path: Path) -> Iterator[list[OSError]]:
    """Somebody who connects again and again meanwhile; whatever refused them."""
    refused: list[OSError] = []
    enough = threading.Event()

    def call() -> None:
        while not enough.wait(0.002):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
                try:
                    one.connect(str(path))
                except OSError as error:
                    refused.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield refused
    finally:
        enough.set()
        thread.join()


async def no_dead_children(pid: int) -> None:
    """Wait until the process has reaped whatever of its children has ended."""
    end = time.monotonic() + 10
    while dead := [one for one in psutil.Process(pid).children() if one.status() == "zombie"]:
        assert time.monotonic() < end, dead
        await asyncio.to_thread(threading.Event().wait, 0.02)


async def test_a_reload_leaves_turns_cards_and_terminals_at_work(
    install: Install, model: ScriptedModel
) -> None:
    release = asyncio.Event()
    hub = await install.start_hub()
    client, terminal, _shell = await opened(install)
    await install.milestones.wait("pty.connected", terminal_id=terminal)
    working = await new_session(client, install)
    model.script(Reply(text="the whole answer", hold=release))
    client.hub.start("session/prompt", prompt(working, "one", "t1"))
    await model.asked.get()
    asking = await new_session(client, install, mode="manual")
    model.script(Reply(calls=[("bash", {"command": "echo ran > ran"})]))
    client.hub.start("session/prompt", prompt(asking, "go", "t2"))
    async with asyncio.timeout(15):
        card = msgspec.json.decode((await client.cards.get()).params)
    before = await install.status()

    with callers(install.paths.socket) as refused:
        said = await reload(install)
    assert refused == []
    assert said == (
        f"lembasd 0.1.0 has taken over from 0.1.0 (pid {hub.pid}); sessions and terminals go on\n"
    )
    assert client.hub.lost.is_set()
    for session in (working, asking):
        await install.milestones.wait("hub.adopted", session_id=session, pid=hub.pid)
    await install.milestones.wait("pty.connected", terminal_id=terminal)

    client = await next_client(install)
    await client.ask("_lembas/terminal/attach", {"terminalId": terminal})
    type_into(client, terminal, "echo $((40+2))-is-it\n")
    await shows(client, b"42-is-it")
    await client.ask("_hub/attach", {"sessionId": asking})
    again = await client.answer_card("once")
    assert again["toolCall"]["toolCallId"] == card["toolCall"]["toolCallId"]
    assert (await client.ask("session/prompt", prompt(asking, "go", "t2")))["stopReason"] == (
        "end_turn"
    )
    release.set()
    answer = await client.ask("session/prompt", prompt(working, "one", "t1"))
    assert answer == {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t1"}}}
    assert len(model.requests) == 3

    after = await install.status()
    assert after["hub"]["pid"] == hub.pid
    assert (before["hub"]["reloads"], after["hub"]["reloads"]) == (0, 1)
    assert {one["pid"] for one in after["workers"]} == {one["pid"] for one in before["workers"]}

    # what the version before has started is still learnt of, and reaped
    worker = await worker_pid(install, working)
    os.kill(worker, signal.SIGKILL)
    await gone(worker)
    answer = await client.ask("session/prompt", prompt(working, "two", "t3"))
    assert answer["stopReason"] == "end_turn"
    await no_dead_children(hub.pid)
    client.hub.close()


async def test_a_reload_in_the_midst_of_starts_loses_none(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    hub = await install.start_hub()
    client, other = await next_client(install), await next_client(install)
    params = {"cwd": str(install.project), "mcpServers": [], "_meta": {"mode": "auto"}}
    made = [client.hub.start("session/new", params) for _ in range(5)]
    reloads = [one.hub.start("_hub/reload", {}) for one in (client, other, client)]
    sessions = [msgspec.json.decode(await one)["sessionId"] for one in made]
    await asyncio.wait_for(other.hub.lost.wait(), 20)
    await asyncio.wait(reloads)
    await install.milestones.wait("hub.listening", pid=hub.pid)
    client = await next_client(install)
    for session in sessions:
        await install.milestones.wait("hub.adopted", session_id=session, pid=hub.pid)
    turns = [
        client.ask("session/prompt", prompt(session, "go", "t1"), 30.0) for session in sessions
    ]
    answers = await asyncio.gather(*turns)
    assert [one["stopReason"] for one in answers] == ["end_turn"] * 5
    # three that ask at once are one reload
    assert (await install.status())["hub"]["reloads"] == 1
    await no_dead_children(hub.pid)
    client.hub.close()


async def test_a_version_that_does_not_start_changes_nothing_and_says_why(
    zygote_install: Install,
) -> None:
    install = zygote_install
    await install.start_hub()
    client = await next_client(install)
    good = install.paths.config_file.read_text()
    install.paths.config_file.write_text("hub:\n  worker_idle: soon\n")
    done = await install.run("reload", service=True)
    assert (done.returncode, done.stdout) == (1, b"")
    said = done.stderr.decode()
    assert said.startswith("the installed version does not start (")
    assert "line 2" in said
    assert said.endswith("); nothing was changed, `lembasd run --check` says more\n")
    install.paths.config_file.write_text(good)
    # whoever is connected has noticed nothing
    assert (await client.ask("_hub/status", {}))["hub"]["reloads"] == 0
    assert await new_session(client, install)
    client.hub.close()
    await install.stop()
    done = await install.run("reload", service=True)
    assert (done.returncode, done.stderr) == (
        3,
        b"lembasd is not running; start it with `lembasd run`\n",
    )


async def test_nothing_takes_over_from_a_hub_that_ends(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    model.script(Reply(text="never ends", hold=asyncio.Event()))
    hub = await install.start_hub()
    client = await next_client(install)
    session = await new_session(client, install)
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await model.asked.get()
    reloading = client.hub.start("_hub/reload", {})
    stopping = client.hub.start("_hub/stop", {})
    with pytest.raises(RequestRefused) as caught:
        await asyncio.wait_for(reloading, 20)
    assert (str(caught.value), caught.value.data) == (
        "lembasd ends",
        {"reason": "not_reloaded"},
    )
    assert await stopping == b"{}"
    assert await asyncio.to_thread(hub.wait, 20) == 0
    client.hub.close()


async def test_a_service_manager_is_told_of_a_reload_and_its_socket_stays(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    async with ServiceManager(install) as manager:
        pid = await manager.start()
        inode = install.paths.socket.stat().st_ino
        client = await next_client(install)
        session = await new_session(client, install)
        client.hub.close()
        began_us = time.monotonic_ns() // 1000
        await reload(install)
        await manager.told("RELOADING=1")
        at = manager.heard[0].removeprefix("MONOTONIC_USEC=")
        assert began_us <= int(at) <= time.monotonic_ns() // 1000
        await manager.told("READY=1")
        client = await next_client(install)
        assert (await client.ask("_hub/status", {}))["hub"]["pid"] == pid
        answer = await client.ask("session/prompt", prompt(session, "one", "t1"))
        assert answer["stopReason"] == "end_turn"
        client.hub.close()
        # a restart by the manager is one as ever
        await manager.stop()
        assert (manager.ends, install.paths.socket.stat().st_ino) == ([0], inode)
        await manager.start()
        await install.milestones.wait("hub.adopted", session_id=session)
        await install.stop()
