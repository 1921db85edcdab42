"""The login's token is in the memory of the processes that need it, in credentials.json, and nowhere else."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.process.test_commands_leave_nothing import until_there
from tests.process.test_lifetimes_terminals import opened, type_into
from tests.support.daemon import Install
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(90),
    pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc"),
]

#: where the machine writes them to, a core file lies in the directory that the test looks through
MAKES_CORES: Final = """
import os, resource
os.chdir({base!r})
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
"""
#: what a tool can find out about the processes above it
LOOK: Final = """
up=$PPID
while [ "$up" -gt 1 ]; do
  cat /proc/$up/environ /proc/$up/cmdline /proc/$up/task/*/environ >> seen 2>/dev/null
  up=$(awk '/^PPid:/ {print $2}' /proc/$up/status)
done
env >> seen; set >> seen; ls -l /proc/self/fd >> seen
echo done > looked; exec sleep 600
"""


def readable(pid: int) -> Iterator[tuple[str, bytes]]:
    """What others may read of a process by its command line and environment, as far as we may."""
    for name in ("cmdline", "environ"):
        try:
            yield f"{pid}/{name}", Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            continue


def core_limit(pid: int) -> str:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[4] for line in lines if line.startswith("Max core file size"))


def files_with(base: Path, token: bytes) -> list[Path]:
    return sorted(
        path
        for path in base.rglob("*")
        if path.is_file() and not path.is_symlink() and token in path.read_bytes()
    )


async def test_the_token_is_in_no_command_line_environment_log_journal_or_tool(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    token = f"lmb-{secrets.token_hex(12)}"
    install.log_in(model.base_url, token=token)
    with install.paths.config_file.open("a") as config:
        config.write("hub: {log: {level: debug}}\n")
    install.service = MAKES_CORES.format(base=str(install.base)) + install.service
    await install.start_hub()
    client, terminal, shell = await opened(install)
    type_into(client, terminal, "(env; set) > persons; echo done > typed\n")
    session, crashes = await new_session(client, install), await new_session(client, install)
    (install.project / "look.sh").write_text(LOOK)
    model.script(Reply(text="one"), Reply(calls=[("bash", {"command": "bash ./look.sh"})]))
    await client.ask("session/prompt", prompt(crashes, "go", "t1"))
    client.hub.start("session/prompt", prompt(session, "go", "t2"))
    for name in ("looked", "typed"):
        await until_there(install.project / name)
    await client.ask("_lembas/session/history", {"sessionId": session})
    # the model was asked with it
    assert set(model.authorizations) == {f"Bearer {token}"}

    status = await install.status()
    workers = [one["pid"] for one in status["workers"]]
    ours = [status["hub"]["pid"], shell, *workers, *(one["pid"] for one in status["zygotes"])]
    assert {core_limit(pid) for pid in ours} == {"0"}
    shown = [
        name for pid in psutil.pids() for name, text in readable(pid) if token.encode() in text
    ]
    assert shown == []

    os.kill(await worker_pid(install, crashes), signal.SIGABRT)
    await client.ask("session/prompt", prompt(crashes, "again", "t3"))
    client.hub.close()
    await install.stop()
    with_it = await asyncio.to_thread(files_with, install.base, token.encode())
    assert with_it == [install.paths.credentials_file]
    assert install.paths.credentials_file.stat().st_mode & 0o777 == 0o600
