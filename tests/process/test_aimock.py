"""A turn against aimock, a scripted server that others wrote, judged by its journal and by a file outside."""

import shutil
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.support.daemon import Install
from tests.support.mock_server import free_port, served
from tests.support.sessions import new_session, prompt

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

#: `make mocks` puts it there
AIMOCK = Path(__file__).parents[2] / ".mocks/node_modules/@copilotkit/aimock/dist/cli.js"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None or not AIMOCK.exists(), reason="`make mocks` needs npm")
async def test_a_scripted_turn_runs_as_its_journal_says(zygote_install: Install) -> None:
    install = zygote_install
    call = {"name": "bash", "arguments": '{"command": "echo ran >> outside"}'}
    made = [
        {
            "match": {"userMessage": "go", "hasToolResult": False},
            "response": {"content": "I run it.", "reasoning": "so", "toolCalls": [call, call]},
        },
        {
            "match": {"userMessage": "go", "hasToolResult": True},
            "response": {"content": "It ran."},
        },
    ]
    folder = install.base / "fixtures"
    folder.mkdir()
    (folder / "made.json").write_bytes(msgspec.json.encode({"fixtures": made}))
    port = free_port()
    command = [str(NODE), str(AIMOCK), "-p", str(port), "-f", str(folder)]
    async with served(*command, port=port, health="/v1/models") as url:
        install.log_in(url)
        await install.start_hub()
        client = await install.client()
        await client.initialize()
        async with httpx.AsyncClient() as http:
            served_models = (await http.get(f"{url}/v1/models")).json()["data"]
        session = await new_session(client, install, model=served_models[0]["id"])
        answer = await client.ask("session/prompt", prompt(session, "go", "t1"))
        assert answer["stopReason"] == "end_turn"
        history = await client.ask("_lembas/session/history", {"sessionId": session})
        client.hub.close()
        async with httpx.AsyncClient() as http:
            entries = (await http.get(f"{url}/__aimock/journal")).json()
    asked = [one for one in entries if one["path"].endswith("/chat/completions")]
    assert len(asked) == 2
    messages = asked[1]["body"]["messages"]
    results = [one["tool_call_id"] for one in messages if one["role"] == "tool"]
    (calls,) = [one["tool_calls"] for one in messages if one.get("tool_calls")]
    assert results == [one["id"] for one in calls]
    assert (install.project / "outside").read_text() == "ran\n" * len(calls) == "ran\n" * 2
    said = [one["text"] for one in history["turns"] if one["role"] == "assistant"]
    assert "".join(said).endswith("It ran.")
