"""A command of a real session: what it leaves behind ends with it, whatever ends it; what its environment is."""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
import pytest

from tests.support.daemon import Install
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

#: each of these detaches itself in another way, and adds its pid to `pids`
LEAVE: Final = f"""
sleep 600 & echo $! >> pids
nohup sleep 600 > /dev/null 2>&1 & echo $! >> pids
sleep 600 & echo $! >> pids; disown -a
setsid sh -c 'echo $$ >> pids; exec sleep 600' &
env -i setsid sh -c 'echo $$ >> pids; exec sleep 600' &
sh -c 'trap "" TERM HUP INT; echo $$ >> pids; while :; do sleep 600; done' &
sh -c 'echo $$ >> pids; kill -STOP $$' &
(setsid sh -c 'echo $$ >> pids; kill -STOP $$' &)
(setsid sh -c 'echo $$ >> pids; exec sleep 600' > held-open 2>&1 &)
{sys.executable} daemon.py
until [ $(wc -l < pids) -eq {{count}} ]; do sleep 0.02; done
echo > all-there
"""
COUNT: Final = 10
DAEMON: Final = """
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 3)
os.execve("/bin/sh", ["sh", "-c", "echo $$ >> pids; exec sleep 600"], {})
"""


async def until_there(path: Path) -> None:
    def wait() -> None:
        while not path.exists():
            psutil.Process().cpu_times()

    await asyncio.wait_for(asyncio.to_thread(wait), 30)


@pytest.mark.parametrize("end", ["itself", "timeout", "cancel", "its death"])
async def test_nothing_of_a_command_is_left(
    install: Install, model: ScriptedModel, end: str
) -> None:
    project = install.project
    (project / "daemon.py").write_text(DAEMON)
    then = {"itself": "", "its death": "kill -9 $$"}.get(end, "exec sleep 600")
    (project / "leave.sh").write_text(LEAVE.replace("{count}", str(COUNT)) + then)
    args: dict[str, Any] = {"command": "exec bash ./leave.sh"}
    if end == "timeout":
        args["timeout"] = 5
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    model.script(Reply(calls=[("bash", args)]))
    turn = client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await until_there(project / "all-there")
    worker = await worker_pid(install, session)
    if end == "cancel":
        client.hub.notify("session/cancel", {"sessionId": session})
    answer = msgspec.json.decode(await asyncio.wait_for(turn, 30))
    assert answer["stopReason"] == ("cancelled" if end == "cancel" else "end_turn")
    pids = [int(line) for line in (project / "pids").read_text().split()]
    # not as zombies either
    assert (len(pids), [pid for pid in pids if psutil.pid_exists(pid)]) == (COUNT, [])
    assert psutil.Process(worker).children() == []
    client.hub.close()


async def test_a_command_has_a_persons_environment_and_nothing_of_the_services(
    install: Install, model: ScriptedModel
) -> None:
    service = {
        "LEMBAS_TOKEN": "a secret",
        "LEMBASD_ANYTHING": "a secret",
        "CREDENTIALS_DIRECTORY": "/a/secret",
        "INVOCATION_ID": "a secret",
        "JOURNAL_STREAM": "a secret",
        "LISTEN_FDNAMES": "a secret",
        "XPC_FLAGS": "a secret",
    }
    install.environment.update(service)
    profile = install.base / ".profile"
    profile.write_text("export FROM_A_PERSON=one AWS_PROFILE=theirs; PATH=$HOME/bin:$PATH\n")
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    command = "env > seen; echo $FROM_A_PERSON $AWS_PROFILE ${PATH%%:*}"
    found = []
    for number, value in enumerate(("one", "two"), start=1):
        profile.write_text(profile.read_text().replace("one", value))
        model.script(Reply(calls=[("bash", {"command": command})]))
        await client.ask("session/prompt", prompt(session, "go", f"t{number}"))
        found.append((install.project / "seen").read_text())
    for seen, value in zip(found, ("one", "two"), strict=True):
        variables = dict(line.split("=", 1) for line in seen.splitlines() if "=" in line)
        assert variables["FROM_A_PERSON"] == value
        assert variables["PATH"].startswith(f"{install.base}/bin:")
        assert (variables["HOME"], variables["TERM"]) == (str(install.base), "dumb")
        assert not set(service) & set(variables)
        assert "a-test-token" not in seen
        assert {name for name in variables if name.startswith("LEMBAS")} == {
            "LEMBAS_HOME",
            "LEMBASD_SESSION",
        }
    client.hub.close()
