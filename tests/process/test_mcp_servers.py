"""MCP servers of real sessions: started, called, and gone with their worker whatever ends it."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.support.daemon import Client, Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
REPOSITORY = Path(__file__).parents[2]


def entry(install: Install, *words: str) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": ["-m", "tests.support.mcp_server"],
        "env": {
            "MISBEHAVE": " ".join(words),
            "MARKS": str(install.base),
            "PYTHONPATH": str(REPOSITORY),
            "SECRET": "s3cret",
        },
    }


def configure(install: Install, *words: str) -> None:
    """Add the server `srv` to config.yaml (JSON is YAML)."""
    with install.paths.config_file.open("a") as file:
        file.write(f"mcp: {msgspec.json.encode({'srv': entry(install, *words)}).decode()}\n")


async def outputs(client: Client, number: int) -> list[str]:
    return [(await client.event("tool_end"))["output"] for _ in range(number)]


@pytest.mark.parametrize("end", ["worker", "stop", "hub then worker"])
async def test_a_server_and_what_it_started_end_with_their_worker_whatever_ends_it(
    install: Install, model: ScriptedModel, end: str
) -> None:
    configure(install, "deaf")
    model.script(Reply(calls=[("mcp__srv__spawn", {})]))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    await client.ask("session/prompt", prompt(session, "go", "t1"), 60)
    (spawned,) = await outputs(client, 1)
    started = [int(one.name.removeprefix("started-")) for one in install.base.glob("started-*")]
    worker = await worker_pid(install, session)
    pids = [*started, int(spawned)]
    assert len(pids) == 2
    assert all(psutil.pid_exists(pid) for pid in pids)
    if end == "worker":
        os.kill(worker, signal.SIGKILL)
    elif end == "stop":
        await install.stop()
    else:
        await install.kill_hub()
        os.kill(worker, signal.SIGKILL)
        await install.start_hub()
    for pid in pids:
        await gone(pid)
    client.hub.close()


async def test_a_clients_server_serves_its_session_and_no_secret_is_kept(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    model.script(Reply(calls=[("mcp__mine__echo", {"text": "hi"})]))
    await install.start_hub()
    client = await install.client()
    capabilities = (await client.initialize())["agentCapabilities"]
    assert capabilities["mcpCapabilities"] == {"http": True, "sse": True}
    given = entry(install)
    env = [{"name": name, "value": value} for name, value in given["env"].items()]
    params = {
        "cwd": str(install.project),
        "mcpServers": [{**given, "name": "mine", "env": env}],
        "_meta": {"mode": "auto"},
    }
    session = str((await client.ask("session/new", params))["sessionId"])
    await client.ask("session/prompt", prompt(session, "go", "t1"), 60)
    assert await outputs(client, 1) == ["echo: hi"]
    kept = [one.read_bytes() for one in install.paths.state.rglob("*") if one.is_file()]
    assert not any(b"s3cret" in one for one in kept)
    client.hub.close()
    await asyncio.wait_for(install.stop(), 30)
