"""A turn over a real link, by a client that is nothing but its messages; every one is judged by ACP's schema."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp import Judge
from tests.support.daemon import Install
from tests.support.fake_instance import TOKEN, FakeInstance
from tests.support.link_client import linked
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import prompt

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]


@pytest.fixture
async def instance(model: ScriptedModel) -> AsyncIterator[FakeInstance]:
    async with FakeInstance() as one:
        one.model_port = model.port
        one.models = [{"id": "scripted"}]
        yield one


@pytest.fixture
async def install(short_tmp: Path, instance: FakeInstance) -> AsyncIterator[Install]:
    async with Install(short_tmp) as one:
        one.configure()
        one.log_in(instance.url, token=TOKEN)
        yield one


async def test_a_turn_with_a_card_and_a_cancelled_one_are_valid_in_both_directions(
    install: Install, instance: FakeInstance, model: ScriptedModel
) -> None:
    judge = Judge()
    model.script(
        Reply(
            text="I look.",
            reasoning="look first",
            calls=[("bash", {"command": "echo a > a"}), ("read", {"path": "none"})],
        ),
        Reply(text="done"),
    )
    await install.start_hub()
    client = await linked(instance, judge)
    asked: dict[str, Any] = {
        "cwd": str(install.project),
        "mcpServers": [],
        "_meta": {"mode": "manual", "lembas_model": "scripted"},
    }
    session = (await client.ask("session/new", asked))["sessionId"]
    turn = client.start("session/prompt", prompt(session, "go", "t1"))
    card = await client.card("once")
    assert card["toolCall"]["rawInput"] == {"command": "echo a > a"}
    assert (await turn)["result"]["stopReason"] == "end_turn"
    assert (install.project / "a").exists()
    await client.ask("session/set_mode", {"sessionId": session, "modeId": "plan"})
    client.send({"method": "session/cancel", "params": {"sessionId": session}})
    status = await client.ask("_lembas/session/status", {"sessionId": session})
    assert status["lastTurnId"] == "t1"
    kinds = set()
    while not client.notes.empty():
        note = client.notes.get_nowait()
        if note["method"] == "session/update":
            kinds.add(note["params"]["update"]["sessionUpdate"])
    assert kinds >= {
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "current_mode_update",
    }
    assert judge.faults == []
    assert judge.seen >= {
        *(f"answer of {method}" for method in ("initialize", "session/new", "session/prompt")),
        "session/request_permission",
        "session/update",
    }
