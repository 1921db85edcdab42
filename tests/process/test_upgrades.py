"""Two builds of lembasd, one after the other: what runs goes on, and is of the other build as soon as it may."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from lembasd.protocol.errors import RequestRefused
from tests.process.test_lifetimes_terminals import opened, shows, type_into
from tests.process.test_reload import next_client, reload
from tests.support.builds import NEW, NEW_FORMAT, NEWER, OLD, STRANGER, Environment
from tests.support.daemon import Client, Install
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def environment(short_tmp: Path) -> Environment:
    """Where this tree is installed."""
    made = Environment(short_tmp / "v")
    made.install()
    return made


@pytest.fixture
async def install(
    environment: Environment, short_tmp: Path, model: ScriptedModel
) -> AsyncIterator[Install]:
    async with Install(short_tmp) as one:
        one.configure()
        one.log_in(model.base_url)
        one.python = environment.python
        yield one


def versions(status: dict[str, Any]) -> dict[str, str]:
    """The version of every process that runs a session or terminal."""
    both = [*status["workers"], *status["terminals"]]
    return {one.get("session_id") or one["terminal_id"]: one["version"] for one in both}


async def say(client: Client, session: str, turn: str) -> str:
    answer = await client.ask("session/prompt", prompt(session, turn, turn))
    return str(answer["stopReason"])


async def said(client: Client, session: str) -> list[str]:
    """What the person has said in the session."""
    history = await client.ask("_lembas/session/history", {"sessionId": session})
    return [turn["text"] for turn in history["turns"] if turn["role"] == "user"]


async def until_version(install: Install, session: str, version: str | None) -> None:
    """Wait until the session's worker is of this version, or there is none."""
    async with asyncio.timeout(20):
        while versions(await install.status()).get(session) != version:
            pass


async def frozen(pid: int) -> None:
    """Wait until the process has stopped, which it does after it told of its milestone."""
    async with asyncio.timeout(20):
        while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
            await asyncio.to_thread(threading.Event().wait, 0.01)


async def test_up_and_down_again(
    install: Install, environment: Environment, model: ScriptedModel
) -> None:
    release = asyncio.Event()
    hub = await install.start_hub()
    client, terminal, _shell = await opened(install)
    busy, looked_at, idle = [await new_session(client, install) for _ in range(3)]
    model.script(Reply(text="the whole answer", hold=release))
    client.hub.start("session/prompt", prompt(busy, "one", "one"))
    await model.asked.get()

    environment.install(NEWER)
    assert f"lembasd {NEW} has taken over from {OLD} (pid {hub.pid})" in await reload(install)
    client = await next_client(install)
    await client.ask("_hub/attach", {"sessionId": looked_at})
    # idle ones make room at once; that at which a person looks has another process at once
    await until_version(install, idle, None)
    await until_version(install, looked_at, NEW)
    status = await install.status()
    assert status["hub"]["version"] == NEW
    assert versions(status) == {busy: OLD, looked_at: NEW, terminal: OLD}
    text = (await install.run("status", service=True)).stdout.decode()
    assert f"{looked_at}  pid" in text
    assert {NEW, OLD} <= {word.rstrip(",") for word in text.split()}
    # the turn ends where it began, then the new version opens the session
    release.set()
    assert await say(client, busy, "one") == "end_turn"
    await until_version(install, busy, None)
    assert await say(client, busy, "two") == "end_turn"
    assert versions(await install.status())[busy] == NEW
    assert (await said(client, busy), len(model.requests)) == (["one", "two"], 2)
    await client.ask("_lembas/terminal/attach", {"terminalId": terminal})
    type_into(client, terminal, "echo $((40+2))-is-it\n")
    await shows(client, b"42-is-it")

    environment.install()
    assert f"lembasd {OLD} has taken over from {NEW} (pid {hub.pid})" in await reload(install)
    client = await next_client(install)
    await until_version(install, busy, None)
    assert await say(client, busy, "three") == "end_turn"
    assert versions(await install.status()) == {busy: OLD, terminal: OLD}
    assert await said(client, busy) == ["one", "two", "three"]
    client.hub.close()


async def test_a_version_that_could_not_open_the_sessions_does_not_take_over(
    install: Install, environment: Environment
) -> None:
    environment.install(NEW_FORMAT)
    await install.start_hub()
    client = await next_client(install)
    session = await new_session(client, install)
    assert await say(client, session, "one") == "end_turn"
    environment.install()
    done = await install.run("reload", service=True)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        (
            f"the installed version {OLD} could not open the sessions of this one (it reads journals of "
            f"format 1, and they are of format 2); install {NEW} or a later one\n"
        ),
    )
    assert await say(client, session, "two") == "end_turn"
    client.hub.close()
    # whoever goes down all the same is told, and nothing is touched
    await install.stop()
    journal = (install.paths.session(session) / "journal.jsonl").read_bytes()
    await install.start_hub()
    client = await next_client(install)
    with pytest.raises(RequestRefused) as caught:
        await say(client, session, "three")
    assert (str(caught.value), caught.value.data) == (
        "a newer version of lembasd has worked on this session; install that or a later one to open it",
        {"reason": "newer"},
    )
    assert (install.paths.session(session) / "journal.jsonl").read_bytes() == journal
    environment.install(NEW_FORMAT)
    await reload(install)
    client = await next_client(install)
    assert await say(client, session, "three") == "end_turn"
    assert await said(client, session) == ["one", "two", "three"]
    client.hub.close()


async def test_versions_that_cannot_talk_lose_nothing(
    install: Install, environment: Environment, model: ScriptedModel
) -> None:
    release = asyncio.Event()
    await install.start_hub()
    client, terminal, shell = await opened(install)
    session = await new_session(client, install)
    model.script(Reply(text="the whole answer", hold=release))
    client.hub.start("session/prompt", prompt(session, "one", "one"))
    await model.asked.get()

    # asked over the socket, for the installed command speaks to this hub no more
    environment.install(STRANGER)
    with pytest.raises(RequestRefused) as caught:
        await client.ask("_hub/reload", {}, 30.0)
    assert str(caught.value) == (
        f"the installed version {NEW} could not talk to the sessions and terminals of {OLD} that are "
        "open (it speaks protocol 2 to 2, they 1 to 1); end them with `lembasd stop`, then start it again"
    )
    done = await install.run("reload", service=True)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "this hub speaks protocol 1 to 1 and the client that connects 2 to 2; the hub is the older one: "
        "end it with `lembasd stop`, then start it again\n"
    )
    client.hub.close()

    # a crash, and the service manager starts what is installed
    worker = (await install.milestones.wait("worker.connected", session_id=session))["pid"]
    await install.kill_hub()
    await install.start_hub()
    await install.milestones.wait("hub.refused", role="worker")
    await install.milestones.wait("hub.refused", role="pty")
    left_out = (await install.status())["strangers"]
    assert {(one["channel"], one["version"]) for one in left_out} == {
        (session, OLD),
        (terminal, OLD),
    }
    release.set()
    await install.milestones.wait("worker.ended", session_id=session, pid=worker)
    # the shell of a person is left alone, and found again by the next hub that can
    os.kill(shell, 0)
    environment.install()
    await install.kill_hub()
    await install.start_hub()
    client = await next_client(install)
    await install.milestones.wait("pty.connected", terminal_id=terminal)
    answer = await client.ask("session/prompt", prompt(session, "one", "one"))
    assert answer == {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "one"}}}
    assert len(model.requests) == 1
    client.hub.close()


async def test_a_turn_goes_on_without_the_package_that_it_was_started_from(
    install: Install, environment: Environment, model: ScriptedModel
) -> None:
    (install.project / "a.py").write_text("needle = 1\n")
    hub = await install.start_hub()
    await install.milestones.wait("zygote.ready", kind="worker")
    client = await next_client(install)
    session = await new_session(client, install)
    release = asyncio.Event()
    calls: list[tuple[str, dict[str, Any] | str]] = [
        ("grep", {"pattern": "needle"}),
        ("glob", {"pattern": "*.py"}),
        ("read", {"path": "a.py"}),
        ("edit", {"path": "a.py", "old": "needle", "new": "thread"}),
        ("list", {}),
        ("bash", {"command": "cat a.py"}),
    ]
    model.script(Reply(text="well", calls=calls, hold=release))
    turn = client.hub.start("session/prompt", prompt(session, "go", "one"))
    await model.asked.get()
    environment.remove()
    (environment.program.parent / "rg").unlink(missing_ok=True)
    release.set()
    answer = msgspec.json.decode(await asyncio.wait_for(turn, 30))
    assert answer["stopReason"] == "end_turn"
    results = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"]
    assert len(results) == len(calls)
    assert ["needle = 1" in results[0], "a.py" in results[1]] == [True, True], results
    assert "thread = 1" in results[5]
    # nor do others mind: a session that begins, a command that reads, a terminal
    other = await new_session(client, install)
    assert await say(client, other, "one") == "end_turn"
    assert await say(client, session, "two") == "end_turn"
    await client.ask("_lembas/session/history", {"sessionId": session})
    # no version is no version that takes over
    with pytest.raises(RequestRefused, match="the installed version does not start"):
        await client.ask("_hub/reload", {}, 30.0)

    # a program that goes away between its check and its start leaves the hub as it is
    environment.install(NEWER)
    install.freeze("hub.hands_over")
    reloading = client.hub.start("_hub/reload", {})
    await install.milestones.wait("hub.hands_over", pid=hub.pid)
    await frozen(hub.pid)
    environment.program.rename(environment.program.with_name("away"))
    os.kill(hub.pid, signal.SIGCONT)
    with pytest.raises(RequestRefused) as caught:
        await asyncio.wait_for(reloading, 20)
    assert str(caught.value).startswith("the installed version cannot be executed (")
    assert await say(client, session, "three") == "end_turn"
    environment.program.with_name("away").rename(environment.program)
    await reload(install)
    client = await next_client(install)
    await until_version(install, session, None)
    assert await say(client, session, "four") == "end_turn"
    assert (await said(client, session))[-3:] == ["two", "three", "four"]
    assert await worker_pid(install, session)
    client.hub.close()
