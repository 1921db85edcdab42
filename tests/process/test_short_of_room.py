"""A disk that is nearly full, or takes nothing more: every turn has one outcome, which is told, and nothing is done twice."""

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
import pytest

from lembasd.hub.core.budgets import ENOUGH_DISK_BYTES, LOW_DISK_BYTES
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.limits import MIB
from lembasd.store import journal
from lembasd.store.records import TurnEnded
from tests.support.daemon import Client, Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(90),
    pytest.mark.skipif(sys.platform != "linux", reason="prlimit and mount namespaces are Linux's"),
]

_RUN: Final = "import sys; from lembasd.cli.service import main; sys.exit(main())"
#: free bytes of the small disk: enough to begin with
_DISK: Final = ENOUGH_DISK_BYTES + 16 * MIB


def _may_mount() -> bool:
    if os.getuid() != 0 or shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0
    )


# ── a disk that is nearly full ──────────────────────────────────────────────────────────────────


class SmallDisk:
    """The state directory of a hub on a disk of its own, in a mount namespace of its own."""

    def __init__(self, install: Install, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/root{install.paths.state}/filler")

    def fill(self, leave: int) -> None:
        about = os.statvfs(self._file.parent)
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(handle, 0, about.f_bavail * about.f_frsize - leave)
        os.close(handle)

    def clear(self) -> None:
        self._file.unlink()


@pytest.fixture
async def small_disk(zygote_install: Install) -> SmallDisk:
    install = zygote_install
    login = install.paths.credentials_file
    assert login.exists()
    install.paths.state.mkdir(parents=True, exist_ok=True)
    mount = f'mount -t tmpfs -o size={_DISK},mode=0700 none "$0" && exec "$1" -c "$2" run'
    words = ["unshare", "-m", "sh", "-c", mount, str(install.paths.state), sys.executable, _RUN]
    out = (install.base / "out").open("ab")
    install.hub = subprocess.Popen(  # noqa: ASYNC220 - as every hub of these tests is started
        words,
        env=install.environment,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
    )
    out.close()
    await install.milestones.wait("hub.listening", pid=install.hub.pid)
    return SmallDisk(install, install.hub.pid)


@pytest.mark.skipif(not _may_mount(), reason="nothing may be mounted here")
async def test_on_a_nearly_full_disk_nothing_begins_and_nothing_is_lost(
    zygote_install: Install, model: ScriptedModel, small_disk: SmallDisk
) -> None:
    install = zygote_install
    release = asyncio.Event()
    model.choose = lambda _body: Reply(text="done", hold=release)
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    runs = client.hub.start("session/prompt", prompt(session, "one", "t1"))
    await model.asked.get()
    waits = client.hub.start("session/prompt", prompt(session, "two", "t2"))
    await install.milestones.wait("worker.turn_synced", turn_id="t2")

    small_disk.fill(leave=LOW_DISK_BYTES // 2)
    await install.milestones.wait("hub.disk_low")
    for method, params in (
        ("session/new", {"cwd": str(install.project), "mcpServers": []}),
        ("session/prompt", prompt(session, "three", "t3")),
    ):
        with pytest.raises(RequestRefused) as refused:
            await client.ask(method, params)
        assert (refused.value.code, refused.value.data) == (
            -32603,
            {"reason": "store", "retryable": True},
        )
    assert (await client.event("notice"))["level"] == "warning"
    (alarm,) = (await install.status())["alarms"]
    assert alarm["kind"] == "disk"
    release.set()
    assert msgspec.json.decode(await asyncio.wait_for(runs, 20))["stopReason"] == "end_turn"
    assert (await client.ask("session/prompt", prompt(session, "one", "t1")))[
        "stopReason"
    ] == "end_turn"
    status = await client.ask("_lembas/session/status", {"sessionId": session})
    assert (status.get("turnId"), status["queued"]) == (None, ["t2"])
    assert len(model.requests) == 1

    small_disk.clear()
    await install.milestones.wait("hub.disk_enough")
    assert msgspec.json.decode(await asyncio.wait_for(waits, 20))["stopReason"] == "end_turn"
    assert (await install.status())["alarms"] == []
    await new_session(client, install)
    client.hub.close()


# ── a disk that takes nothing more ──────────────────────────────────────────────────────────────


#: a turn's steps before which its worker can write nothing from then on, and how often its command has run by the end
STEPS: Final = {
    "worker.turn_synced": 0,
    "worker.first_token": 0,
    "worker.tool_started": 1,
    "worker.tool_ended": 1,
    "worker.end_written": 1,
}


def _plays(body: dict[str, Any]) -> Reply:
    last = body["messages"][-1]
    if last["role"] == "user" and str(last["content"]).endswith("go"):
        return Reply(text="I run it.", calls=[("bash", {"command": "mkdir ran.$$"})])
    return Reply(text="done")


async def _outcome(client: Client, session: str, turn_id: str, text: str = "go") -> str:
    """How the prompt is answered: its stop reason, or the reason of its error."""
    try:
        return str(
            (await client.ask("session/prompt", prompt(session, text, turn_id)))["stopReason"]
        )
    except RequestRefused as refused:
        return str((refused.data or {})["reason"])


async def test_a_disk_that_takes_nothing_more_in_the_middle_of_a_turn_loses_and_repeats_nothing(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    model.choose = _plays
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    for step, runs in STEPS.items():
        session = await new_session(client, install)
        assert await _outcome(client, session, "t0", "hello") == "end_turn"
        install.freeze(step)
        pid = int((await _froze(install, client, session, step))["pid"])
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        os.kill(pid, signal.SIGCONT)
        told = await _outcome(client, session, "t1")
        asked = len(model.requests)
        assert told == ("end_turn" if step == "worker.end_written" else "store"), step
        assert await _outcome(client, session, "t1") == told, step
        # nothing was written of this one, so it may be sent again
        assert await _outcome(client, session, "t2", "hello") == "store", step

        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert await _outcome(client, session, "t2", "hello") == "end_turn", step
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        assert await _outcome(client, session, "t1") == told, step
        assert len(model.requests) == asked + 1, step
        ran = list(install.project.glob("ran.*"))
        assert len(ran) == runs, step
        for one in ran:
            one.rmdir()
        records = journal.read(install.paths, session).records
        ends = [one.turn_id for one in records if isinstance(one, TurnEnded)]
        assert sorted(ends) == ["t0", "t1", "t2"], step
    client.hub.close()


async def _froze(install: Install, client: Client, session: str, step: str) -> dict[str, Any]:
    """Have the session's next turn begin, and stop before it goes on from `step`."""
    client.hub.start("session/prompt", prompt(session, "go", "t1"))
    reached = await install.milestones.wait(step, session_id=session)
    while psutil.Process(reached["pid"]).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110 - the kernel tells nobody else
        await asyncio.sleep(0.01)
    return reached
