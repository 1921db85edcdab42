"""A session's MCP servers: real ones on pipes and over HTTP, and what they do wrong."""

import asyncio
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from lembasd.device import runtime
from lembasd.device.process_tree import by_marker
from lembasd.engine.api import CardRequest, Decision, TurnOutcome
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol import events
from lembasd.protocol.mcp import McpServer
from lembasd.store.records import ToolResult, ToolsOffered
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

DONE = TurnOutcome(stop_reason="end_turn")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture
def host(short_tmp: Path, model: ScriptedModel) -> RecorderHost:
    root = (short_tmp / "project").resolve()
    root.mkdir()
    return RecorderHost(root, model.base_url)


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    runtime.become_subreaper()
    yield
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def server(host: RecorderHost, *words: str, name: str = "srv", **fields: Any) -> McpServer:
    """The misbehaving server, set up for this session."""
    env = {
        "MISBEHAVE": " ".join(words),
        "MARKS": str(host.root),
        "PYTHONPATH": str(REPOSITORY),
        "SECRET": "s3cret",
    }
    return McpServer(
        name=name,
        command=sys.executable,
        args=["-m", "tests.support.mcp_server"],
        env=env,
        **fields,
    )


def configure(host: RecorderHost, *servers: McpServer) -> None:
    host.settings = replace(host.settings, mcp=list(servers))


async def turn(host: RecorderHost, engine: NativeEngine, turn_id: str = "t1") -> None:
    assert await asyncio.wait_for(host.turn(engine, turn_id), 40) == DONE


def notices(host: RecorderHost) -> list[str]:
    return [one.text for one in host.events if isinstance(one, events.Notice)]


def names(body: dict[str, Any]) -> list[str]:
    all_names = [one["function"]["name"] for one in body["tools"]]
    return [name for name in all_names if name.startswith("mcp__")]


async def test_a_servers_tools_are_offered_and_called(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    model.script(Reply(calls=[("mcp__srv__echo", {"text": "hi"})]))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert notices(host) == []
    assert names(model.requests[0])[:3] == ["mcp__srv__change", "mcp__srv__die", "mcp__srv__echo"]
    assert model.requests[0]["tools"] == model.requests[1]["tools"]
    assert host.results()[0].output == "echo: hi"
    assert by_marker(host.session_id) == []
