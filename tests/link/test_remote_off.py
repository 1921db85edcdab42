"""A card that waits while a person turns remote work off by the command: over a real link, hub and worker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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


@pytest.mark.spec("limits: judged at each request")
async def test_a_yes_after_remote_off_runs_nothing(
    install: Install, instance: FakeInstance, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "echo a > ran"})]), Reply(text="done"))
    await install.start_hub()
    client = await linked(instance)
    meta = {"mode": "manual", "lembas_model": "scripted"}
    asked = {"cwd": str(install.project), "mcpServers": [], "_meta": meta}
    session = (await client.ask("session/new", asked))["sessionId"]
    turn = client.start("session/prompt", prompt(session, "go", "t1"))
    card = await client.cards.get()
    off = await install.run("remote", "off")
    assert off.returncode == 0, off.stderr.decode()
    selected = {"outcome": {"outcome": "selected", "optionId": "once"}}
    client.send({"id": card["id"], "result": selected})
    assert (await turn)["result"]["stopReason"] == "end_turn"
    # nothing works any more: the device says its new limits on another link
    client = await linked(instance)
    history = await client.ask("_lembas/session/history", {"sessionId": session})
    (tool,) = [tool for one in history["turns"] for tool in one.get("tools", [])]
    assert tool["isError"]
    assert "remote work is off" in tool["output"]
    assert not (install.project / "ran").exists()
