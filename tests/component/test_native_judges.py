"""Mock servers that others wrote: what they say of our client, and what they saw of it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lembasd.engine.api import TurnOutcome
from tests.support.mock_server import free_port, served
from tests.support.recorder_host import RecorderHost

pytestmark = pytest.mark.timeout(120)
ENDED = TurnOutcome(stop_reason="end_turn")


def host_at(short_tmp: Path, url: str) -> RecorderHost:
    root = (short_tmp / "project").resolve()
    root.mkdir()
    return RecorderHost(root, url)


#: (garbage in a stream is left out: the mock has sent all of a short reply before it sees that we stopped reading)
#: what llmock is told to do to our requests, one after the other
FAULTS: dict[str, list[dict[str, Any]]] = {
    "rate limits": [{"type": "fail", "status": 429, "retry_after": 0.3, "times": 2}],
    "overload": [{"type": "fail", "status": status} for status in (500, 503, 529)],
    "a bad request": [{"type": "fail", "status": 400}],
    "streams that are cut": [{"type": "stream_fault", "kind": "disconnect"}],
    "streams that end early": [{"type": "stream_fault", "kind": "truncate"}],
    "arguments that do not parse": [{"type": "tool_fault", "kind": "malformed_arguments"}],
    "a tool that is not there": [{"type": "tool_fault", "kind": "unknown_tool"}],
}


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def llmock_url() -> AsyncIterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "llmock.cli", "serve", "--port", str(port)]
    async with served(*command, port=port, health="/health") as url:
        yield url


@pytest.mark.parametrize("faults", FAULTS.values(), ids=list(FAULTS))
async def test_llmock_finds_nothing_wrong_with_the_client(
    llmock_url: str, short_tmp: Path, faults: list[dict[str, Any]]
) -> None:
    host = host_at(short_tmp, llmock_url)
    async with httpx.AsyncClient(base_url=llmock_url) as http:
        await http.post("/_llmock/reset")
        # the question about the model comes first, and is not the subject
        match = {"path": "/v1/chat/completions"}
        behaviors = [{**one, "match": match} for one in faults]
        told = await http.post("/_llmock/scenario", json={"behaviors": behaviors})
        assert told.status_code == 201, told.text
        # in plan mode nothing runs of what the mock makes up
        engine = host.engine("plan")
        outcomes = [await host.turn(engine, f"t{number}", "say something") for number in range(2)]
        await engine.aclose()
        verdict = (await http.get("/_llmock/verdict")).json()
        left = (await http.get("/_llmock/scenario")).json()
    assert (verdict["findings"], left["pending"]) == ([], [])
    of_requests = [one for one in faults if one["type"] != "tool_fault"]
    assert verdict["faults_injected"] == sum(one.get("times", 1) for one in of_requests)
    assert outcomes[1] == ENDED
    assert (outcomes[0] == ENDED) != (faults[0].get("status") == 400)
