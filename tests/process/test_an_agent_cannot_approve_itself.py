"""An agent's own processes ask for what a person alone may do: by the commands, and by the socket itself."""

import asyncio
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from lembasd.device import process_tree
from lembasd.protocol.errors import AGENTS_REFUSED, EXIT_REFUSED
from tests.support.daemon import Client, Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

SCRIPT: Final = Path(__file__).parents[1] / "support" / "agents_script.py"
BELOW: Final = "a process below a worker cannot be one"
CLIENT: Final = {
    "initialize": "done",
    "_hub/status": "done",
    "_hub/attach": AGENTS_REFUSED,
    "_hub/share": AGENTS_REFUSED,
    "session/new": AGENTS_REFUSED,
    "session/prompt": AGENTS_REFUSED,
    "session/set_mode": AGENTS_REFUSED,
    "_lembas/session/history": AGENTS_REFUSED,
    "_lembas/terminal/open": AGENTS_REFUSED,
    "_hub/reload": AGENTS_REFUSED,
    "_hub/stop": AGENTS_REFUSED,
}
#: ways to run a command line `$1` that detach it from the worker, each further than the one before
WAYS: Final = {
    "as a child": 'bash -c "$1"',
    "in a session of its own": 'setsid bash -c "$1"',
    "without the marker": 'env -i LEMBAS_HOME="$LEMBAS_HOME" PATH="$PATH" bash -c "$1"',
    "as a daemon without the marker": "{python} {daemon} {home}",
}
DAEMON: Final = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
environment = {"LEMBAS_HOME": sys.argv[1], "PATH": os.defpath}
os.execve("/bin/sh", ["sh", "-c", open(sys.argv[2]).read()], environment)
"""


class Agent:
    """A session in auto mode whose model runs what a test says."""

    def __init__(
        self, install: Install, model: ScriptedModel, client: Client, session: str
    ) -> None:
        self.install = install
        self.model = model
        self.client = client
        self.session = session
        self._turn = 0

    def run(self, way: str, line: str, then: str = "") -> "asyncio.Future[bytes]":
        """Have a command line run in one of the ways; the turn it runs in."""
        base = self.install.base
        (base / "daemon.py").write_text(DAEMON)
        (base / "line").write_text(line)
        command = f"set -- x {shlex.quote(line)}; shift; {WAYS[way]} {then}"
        command = command.replace("{python}", sys.executable)
        command = command.replace("{daemon}", str(base / "daemon.py"))
        command = command.replace("{home}", f"{self.install.home} {base / 'line'}")
        # what a script does is not judged, so that the hub alone stands in its way
        (self.install.project / "attempt").write_text(command)
        self.model.script(Reply(calls=[("bash", {"command": "bash ./attempt"})]))
        self._turn += 1
        return self.client.hub.start("session/prompt", prompt(self.session, "go", f"t{self._turn}"))

    def line(self, *args: str) -> tuple[Path, str]:
        """Where the script writes what came of its tries, and its command line."""
        out = self.install.base / "said"
        words = [sys.executable, str(SCRIPT), str(out), *args]
        return out, f"{shlex.join(words)} 2>{self.install.base}/failed"

    async def said(self, out: Path) -> dict[str, Any]:
        def wait() -> bytes:
            while not out.exists():
                os.sched_yield()
            return out.read_bytes()

        async with asyncio.timeout(40):
            value: dict[str, Any] = msgspec.json.decode(await asyncio.to_thread(wait))
        return value


async def begin(install: Install, model: ScriptedModel) -> Agent:
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    return Agent(install, model, client, await new_session(client, install))


def refused(said: dict[str, Any], **more: str) -> None:
    """Check that everything was refused that is not an agent's."""
    said["client"].pop("after the reply", None)
    roles = {"worker": BELOW, "pty": BELOW, "utility": BELOW, **more}
    assert said == {"pid": said["pid"], "client": CLIENT, **roles}


async def closed_session(agent: Agent) -> str:
    """A session that nobody has open: its lock is free to be taken."""
    session = await new_session(agent.client, agent.install)
    await agent.client.ask("session/prompt", prompt(session, "hello", "t0"))
    worker = await worker_pid(agent.install, session)
    os.kill(worker, signal.SIGKILL)
    await gone(worker)
    return session


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_of_a_persons_is_given_to_a_tool_on_the_socket(
    zygote_install: Install, model: ScriptedModel, way: str
) -> None:
    agent = await begin(zygote_install, model)
    closed = await closed_session(agent)
    out, line = agent.line(agent.session, closed, "")
    turn = agent.run(way, line, f"; until test -e {out}; do sleep 0.02; done")
    said = await agent.said(out)
    refused(said, **{"worker with a lock": BELOW})
    await asyncio.wait_for(turn, 20)
    # and a person is not
    assert (await agent.client.ask("_hub/status", {}))["hub"]["pid"]
    agent.client.hub.close()


@pytest.mark.parametrize("way", ["as a child", "as a daemon without the marker"])
async def test_a_card_is_not_answered_by_another_sessions_tool(
    zygote_install: Install, model: ScriptedModel, way: str
) -> None:
    agent = await begin(zygote_install, model)
    asks = await new_session(agent.client, zygote_install, mode="manual")
    model.script(Reply(calls=[("bash", {"command": "echo ran > ran"})]))
    turn = agent.client.hub.start("session/prompt", prompt(asks, "go", "c1"))
    async with asyncio.timeout(20):
        card = await agent.client.cards.get()
    out, line = agent.line(asks, "", msgspec.json.decode(card.id))
    other = agent.run(way, line, f"; until test -e {out}; do sleep 0.02; done")
    said = await agent.said(out)
    assert said["client"]["after the reply"] == "done"
    refused(said)
    await asyncio.wait_for(other, 20)
    assert not turn.done()
    agent.client.hub.reply(card, {"outcome": {"outcome": "selected", "optionId": "deny"}})
    await asyncio.wait_for(turn, 20)
    assert not (zygote_install.project / "ran").exists()
    agent.client.hub.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_hub_that_has_just_started_knows_an_agents_process_too(
    install: Install, model: ScriptedModel, way: str
) -> None:
    agent = await begin(install, model)
    out, line = agent.line(agent.session, "", "")
    go = install.base / "go"
    line = f"until test -e {go}; do sleep 0.02; done; touch {install.base}/begun; {line}"
    agent.run(way, line, f"; until test -e {out}; do sleep 0.02; done")
    await install.milestones.wait("worker.tool_started", session_id=agent.session)
    worker = await worker_pid(install, agent.session)
    await install.kill_hub()
    # the worker cannot say hello to the next hub, which knows nothing of it
    os.kill(worker, signal.SIGSTOP)
    try:
        await install.start_hub()
        go.touch()
        said = await agent.said(out)
    finally:
        os.kill(worker, signal.SIGCONT)
    refused(said)
    await install.milestones.wait("hub.adopted", session_id=agent.session)


async def test_what_a_dead_worker_left_behind_is_known_until_it_is_ended(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    agent = await begin(install, model)
    out, line = agent.line(agent.session, await closed_session(agent), "")
    go = install.base / "go"
    line = f"touch {install.base}/begun; until test -e {go}; do sleep 0.02; done; {line}"
    agent.run("as a daemon without the marker", line, "; sleep 600")
    async with asyncio.timeout(20):
        await asyncio.to_thread(_until_there, install.base / "begun")
    worker = await worker_pid(install, agent.session)
    daemon = next(one for one in process_tree.children(worker) if one != worker)
    zygote = (await install.milestones.wait("zygote.ready", kind="worker"))["pid"]
    # a zygote that is slow to end what it was given
    os.kill(zygote, signal.SIGSTOP)
    try:
        os.kill(worker, signal.SIGKILL)
        await gone(worker)
        go.touch()
        refused(await agent.said(out), **{"worker with a lock": BELOW})
    finally:
        os.kill(zygote, signal.SIGCONT)
    await gone(daemon)


def _until_there(path: Path) -> None:
    while not path.exists():
        os.sched_yield()


COMMANDS: Final = (
    ("lembasd", "stop"),
    ("lembasd", "run"),
    ("lembas", "trust", "add", "/"),
    ("lembas", "trust", "remove", "/"),
    ("lembas", "remote", "on"),
    ("lembas", "remote", "off"),
    ("lembas", "remote", "add", "/"),
    ("lembas", "remote", "remove", "/"),
    ("lembas", "remote", "mode", "auto"),
    ("lembas", "remote", "terminal", "on"),
    ("lembas", "service", "scheduled", "on"),
    ("lembas", "config", "set", "mode", "auto"),
    ("lembas", "login", "--token-stdin"),
    ("lembas", "logout"),
)


@pytest.mark.parametrize("way", WAYS)
async def test_commands_that_are_a_persons_are_refused_to_a_tool(
    zygote_install: Install, model: ScriptedModel, way: str
) -> None:
    install = zygote_install
    agent = await begin(install, model)
    before = {path: path.read_bytes() for path in install.paths.config.iterdir()}
    out = install.base / "said"
    modules = {"lembasd": "lembasd.cli.service", "lembas": "lembasd.cli.person"}
    tries = "; ".join(
        f"{shlex.join([sys.executable, '-m', modules[name], *args])} </dev/null 2>&1; echo $?"
        for name, *args in COMMANDS
    )
    line = f"({tries}) > {out}.part; mv {out}.part {out}"
    turn = agent.run(way, line, f"; until test -e {out}; do sleep 0.02; done")
    async with asyncio.timeout(60):
        await asyncio.to_thread(_until_there, out)
    assert out.read_text().replace("lembasd: ", "") == f"{AGENTS_REFUSED}\n{EXIT_REFUSED}\n" * len(
        COMMANDS
    )
    await asyncio.wait_for(turn, 20)
    assert {path: path.read_bytes() for path in install.paths.config.iterdir()} == before
    assert (await install.status())["workers"]
    agent.client.hub.close()
