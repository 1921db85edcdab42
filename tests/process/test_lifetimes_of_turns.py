"""What survives when a process dies in the middle of a turn."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]


@pytest.mark.spec("turn ids: a known id never runs again")
async def test_a_worker_that_is_killed_takes_down_nothing_else(
    install: Install, model: ScriptedModel
) -> None:
    release = asyncio.Event()
    model.choose = lambda _body: Reply(text="half a reply", hold=release)
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    killed, other = await new_session(client, install), await new_session(client, install)
    killed_turn = client.hub.start("session/prompt", prompt(killed, "one", "t1"))
    other_turn = client.hub.start("session/prompt", prompt(other, "two", "t2"))
    await install.milestones.wait("worker.turn_started", session_id=killed)
    await install.milestones.wait("worker.turn_started", session_id=other)
    await model.asked.get()
    await model.asked.get()

    os.kill(await worker_pid(install, killed), signal.SIGKILL)
    with pytest.raises(RequestRefused) as caught:
        await asyncio.wait_for(killed_turn, 15)
    assert (caught.value.code, caught.value.data) == (-32603, {"reason": "worker_ended"})
    release.set()
    answer = msgspec.json.decode(await asyncio.wait_for(other_turn, 15))
    assert answer == {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t2"}}}

    # it opens again with its history; its turn has ended with that error and never runs again
    asked = len(model.requests)
    with pytest.raises(RequestRefused) as again:
        await client.ask("session/prompt", prompt(killed, "one", "t1"))
    assert (again.value.code, (again.value.data or {})["reason"]) == (-32603, "worker_ended")
    assert len(model.requests) == asked
    answer = await client.ask("session/prompt", prompt(killed, "three", "t3"))
    assert answer["stopReason"] == "end_turn"
    history = await client.ask("_lembas/session/history", {"sessionId": killed})
    assert [turn["text"] for turn in history["turns"] if turn["role"] == "user"] == ["one", "three"]
    client.hub.close()


@pytest.mark.spec("turn ids: kept over a restart")
async def test_a_hub_that_is_killed_loses_no_turn(install: Install, model: ScriptedModel) -> None:
    release = asyncio.Event()
    model.script(Reply(text="the whole answer", hold=release))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    client.hub.start("session/prompt", prompt(session, "one", "t1"))
    await model.asked.get()
    pid = await worker_pid(install, session)

    await install.kill_hub()
    release.set()
    await install.milestones.wait("worker.turn_ended", session_id=session)
    await install.start_hub()
    await install.milestones.wait("hub.adopted", session_id=session)
    client = await install.client()
    await client.initialize()
    status = await client.ask("_lembas/session/status", {"sessionId": session})
    assert (status["held"], status["busy"], status["lastTurnId"]) == ("here", False, "t1")
    answer = await client.ask("session/prompt", prompt(session, "one", "t1"))
    assert answer == {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t1"}}}
    assert (len(model.requests), await worker_pid(install, session)) == (1, pid)
    client.hub.close()


async def test_a_card_that_waits_is_asked_again_by_the_next_hub(
    install: Install, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "echo ran > ran"})]))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install, mode="manual")
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    async with asyncio.timeout(15):
        first = msgspec.json.decode((await client.cards.get()).params)

    await install.kill_hub()
    await install.start_hub()
    await install.milestones.wait("hub.adopted", session_id=session)
    client = await install.client()
    await client.initialize()
    await client.ask("_hub/attach", {"sessionId": session})
    second = await client.answer_card("once")
    assert second["toolCall"]["toolCallId"] == first["toolCall"]["toolCallId"]
    answer = await client.ask("session/prompt", prompt(session, "go", "t1"))
    assert answer["stopReason"] == "end_turn"
    assert (install.project / "ran").read_text() == "ran\n"
    client.hub.close()


async def test_a_zygote_that_is_killed_harms_no_session_and_comes_again(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    first = await install.milestones.wait("zygote.ready", kind="worker")
    os.kill(first["pid"], signal.SIGKILL)
    await install.milestones.wait("zygote.ready", kind="worker")
    answer = await client.ask("session/prompt", prompt(session, "still there?", "t1"))
    assert answer["stopReason"] == "end_turn"
    assert await new_session(client, install) != session
    client.hub.close()


DAEMON = """
import os, sys, time
pid = os.fork()
if pid: os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
os.execve(sys.executable, [sys.executable, "-c",
    "import os,time; open(%r, 'w').write(str(os.getpid())); os.rename(%r, %r); time.sleep(600)"], {})
"""


def daemonise(target: Path) -> str:
    """A command line that leaves a process which detached itself and cleared its environment, and goes on itself."""
    script = target.with_name("daemonise.py")
    part = str(target) + ".part"
    script.write_text(DAEMON % (part, part, str(target)))
    wait = f"until test -e {target}; do sleep 0.02; done"
    return f"{sys.executable} {script}; {wait}; echo ready > {target}.ready; sleep 600"


def pid_in(path: Path) -> int | None:
    """The pid that the daemon wrote, once the shell that started it has seen it."""
    return int(path.read_text()) if path.with_name(path.name + ".ready").exists() else None


async def read_pid(path: Path) -> int:
    async with asyncio.timeout(20):
        while (pid := pid_in(path)) is None:  # noqa: ASYNC110 - a shell writes it
            await asyncio.sleep(0.02)
    return pid


@pytest.mark.parametrize(
    "end", ["cancel", "worker", "zygote then worker", "stop", "hub then stop", "frozen hub"]
)
async def test_a_daemonised_tool_ends_with_its_worker_whatever_ends_it(
    zygote_install: Install, model: ScriptedModel, end: str
) -> None:
    install = zygote_install
    target = install.base / "daemon"
    model.script(Reply(calls=[("bash", {"command": daemonise(target)})]))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    turn = client.hub.start("session/prompt", prompt(session, "go", "t1"))
    daemon = await read_pid(target)
    worker = await worker_pid(install, session)
    try:
        if end == "cancel":
            client.hub.notify("session/cancel", {"sessionId": session})
            answer = msgspec.json.decode(await asyncio.wait_for(turn, 15))
            assert answer["stopReason"] == "cancelled"
        elif end == "worker":
            os.kill(worker, signal.SIGKILL)
        elif end == "zygote then worker":
            zygote = await install.milestones.wait("zygote.ready", kind="worker")
            os.kill(zygote["pid"], signal.SIGKILL)
            await install.milestones.wait("zygote.ready", kind="worker")
            os.kill(worker, signal.SIGKILL)
        elif end == "stop":
            await install.stop()
        elif end == "frozen hub":
            assert install.hub is not None
            install.hub.send_signal(signal.SIGSTOP)
            await install.stop()
        else:
            await install.kill_hub()
            await install.stop()
        await gone(daemon)
    finally:
        try:
            os.kill(daemon, signal.SIGKILL)
        except ProcessLookupError:
            pass
    client.hub.close()


async def test_stop_without_a_hub_ends_workers_in_their_turns(
    install: Install, model: ScriptedModel
) -> None:
    model.script(Reply(text="never ends", hold=asyncio.Event()))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await model.asked.get()
    await install.kill_hub()
    done = await install.run("stop", service=True)
    assert (done.returncode, done.stdout) == (0, b"lembasd has stopped\n")
    await install.nothing_runs()


async def test_stop_kills_workers_that_hang_and_ends_what_their_tools_left(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    target = install.base / "marked"
    leave = f"sleep 600 & echo $! > {target}.part; mv {target}.part {target}; wait"
    model.script(Reply(calls=[("bash", {"command": leave})]))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await install.milestones.wait("worker.tool_started", session_id=session)
    worker = await worker_pid(install, session)
    zygote = await install.milestones.wait("zygote.ready", kind="worker")
    for frozen in (worker, zygote["pid"]):
        os.kill(frozen, signal.SIGSTOP)
    await install.kill_hub()
    await install.stop()


async def test_sigterm_is_stop_without_a_service_manager_and_leaving_under_one(
    install: Install, model: ScriptedModel
) -> None:
    install.environment["NOTIFY_SOCKET"] = str(install.base / "notify")
    release = asyncio.Event()
    model.script(Reply(text="goes on", hold=release))
    hub = await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await model.asked.get()
    worker = await worker_pid(install, session)
    hub.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(hub.wait, 20) == 0
    release.set()
    await install.milestones.wait("worker.turn_ended", session_id=session)

    del install.environment["NOTIFY_SOCKET"]
    hub = await install.start_hub()
    await install.milestones.wait("hub.adopted", session_id=session)
    assert await worker_pid(install, session) == worker
    hub.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(hub.wait, 20) == 0
    await install.nothing_runs()


async def test_a_session_whose_worker_ends_three_times_stays_closed_until_its_next_prompt(
    install: Install, model: ScriptedModel
) -> None:
    model.choose = lambda body: (
        Reply(text="here")
        if "alive" in body["messages"][-1]["content"]
        else Reply(hold=asyncio.Event())
    )
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    for number in range(3):
        turn = client.hub.start("session/prompt", prompt(session, "go", f"t{number}"))
        await model.asked.get()
        os.kill(await worker_pid(install, session), signal.SIGKILL)
        with pytest.raises(RequestRefused):
            await asyncio.wait_for(turn, 15)
    status = await client.ask("_lembas/session/status", {"sessionId": session})
    assert (status["exists"], status["held"], status["lastTurnId"]) == (True, "none", "t2")
    assert (await install.status())["workers"] == []
    answer = await client.ask("session/prompt", prompt(session, "alive?", "t9"))
    assert answer["stopReason"] == "end_turn"
    client.hub.close()
