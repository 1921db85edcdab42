"""What was left when everything that would have ended it had died: the next hub's sweep finds it."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
import pytest

from tests.process.test_commands_leave_nothing import until_there
from tests.process.test_lifetimes_terminals import type_into
from tests.support.daemon import Install, gone
from tests.support.delegated import delegated, joining
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

#: neither its parent, its session nor its environment says whose it is
CLEARED: Final = "(env -i setsid sh -c 'echo $$ > {name}.new; mv {name}.new {name}; exec sleep 600' > /dev/null 2>&1 &)"


async def pid_in(path: Path) -> int:
    await until_there(path)
    return int(await asyncio.to_thread(path.read_text))


async def works(install: Install, model: ScriptedModel, client: Any, name: str) -> str:
    """A session whose command has left a process behind and goes on."""
    session = await new_session(client, install)
    command = CLEARED.format(name=name) + "; exec sleep 600"
    model.script(Reply(calls=[("bash", {"command": command})]))
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    return session


def logged(install: Install, event: str) -> list[dict[str, Any]]:
    lines = (install.paths.log / "lembasd.jsonl").read_bytes().splitlines()
    return [one for one in map(msgspec.json.decode, lines) if one["event"] == event]


async def test_what_outlived_hub_zygote_and_worker_is_found_and_the_rest_goes_on(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    with delegated("hub") as group:
        install.service = joining(group) + install.service
        await install.start_hub()
        client = await install.client()
        await client.initialize()
        killed = await works(install, model, client, "killed")
        orphan = await pid_in(install.project / "killed")
        goes_on = await works(install, model, client, "lives")
        tool = await pid_in(install.project / "lives")
        terminal = await client.ask("_lembas/terminal/open", {"cwd": str(install.project)})
        type_into(client, terminal["terminalId"], CLEARED.format(name="persons") + "\n")
        persons = await pid_in(install.project / "persons")
        others = await asyncio.create_subprocess_exec(
            "sleep", "600", env={"LEMBASD_SESSION": f"ses_{'0' * 26}:1"}
        )
        worker = await worker_pid(install, killed)
        other_worker = await worker_pid(install, goes_on)
        zygote = next(
            one["pid"] for one in (await install.status())["zygotes"] if one["kind"] == "worker"
        )
        client.hub.close()
        await install.kill_hub()
        for pid in (zygote, worker):
            os.kill(pid, signal.SIGKILL)
            await gone(pid)
        assert psutil.pid_exists(orphan)

        await install.start_hub()
        await install.milestones.wait("hub.swept")
        await install.milestones.wait("hub.swept")
        await gone(orphan)
        assert [psutil.pid_exists(one) for one in (tool, persons, other_worker)] == [True] * 3
        assert others.returncode is None
        (found,) = logged(install, "orphans_ended")
        assert (orphan in found["ended"], found["left"], found["sessions"]) == (True, [], [killed])
        assert [one.name for one in group.glob("lembas-*/ses_*")] == [f"{goes_on}.{other_worker}"]
        others.kill()
        await others.wait()
        os.kill(persons, signal.SIGKILL)
        await install.stop()
        await gone(tool)
        assert [*group.glob("*/")] == []
