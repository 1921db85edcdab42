"""Protected paths and what a person's answer covers, by every name a path can have."""

import asyncio
from pathlib import Path

import pytest

from lembasd.engine.api import CardRequest, Decision, TurnOutcome
from lembasd.protocol import events
from lembasd.protocol.control import Mode
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

DONE = TurnOutcome(stop_reason="end_turn")
BASH = ("bash", {"command": "touch ran", "purpose": "To try it."})


@pytest.fixture
def host(tmp_path: Path, model: ScriptedModel) -> RecorderHost:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    return RecorderHost(project, model.base_url)


@pytest.mark.parametrize("mode", ["plan", "manual", "edit", "auto"])
@pytest.mark.parametrize(
    "path", ["secret/key", "link/key", "./free/../secret/key", "direct", "secret", "secret/new"]
)
async def test_a_protected_path_is_refused_in_every_mode_by_every_name(
    model: ScriptedModel, host: RecorderHost, mode: Mode, path: str
) -> None:
    secret = host.root / "secret"
    secret.mkdir()
    (host.root / "free").mkdir()
    (secret / "key").write_text("hidden")
    (host.root / "link").symlink_to(secret)
    (host.root / "direct").symlink_to(secret / "key")
    host.protected = [secret]
    read = ("read", {"path": path})
    write = ("write", {"path": path, "content": "x"})
    model.script(Reply(calls=[read]), Reply(calls=[write]))
    engine = host.engine(mode)
    assert await asyncio.wait_for(host.turn(engine), 10) == DONE
    await engine.aclose()
    assert host.cards == []
    denied = [one.by for one in host.events if isinstance(one, events.ToolDenied)]
    assert denied == ["floor", "floor"]
    assert "hidden" not in str(model.requests)
    assert [(one.name, one.read_text()) for one in secret.iterdir()] == [("key", "hidden")]


class SwappingHost(RecorderHost):
    """Allows each card, after `free` has become a link to `secret`."""

    async def ask(self, card: CardRequest) -> Decision:
        (self.root / "free").rmdir()
        (self.root / "free").symlink_to(self.root / "secret")
        return Decision(outcome="once")


async def test_a_path_that_became_protected_while_it_was_asked_for_is_refused(
    model: ScriptedModel, host: RecorderHost
) -> None:
    host = SwappingHost(host.root, model.base_url)
    secret = host.root / "secret"
    secret.mkdir()
    (host.root / "free").mkdir()
    host.protected = [secret]
    model.script(Reply(calls=[("write", {"path": "free/key", "content": "x"})]))
    engine = host.engine("manual")
    assert await asyncio.wait_for(host.turn(engine), 10) == DONE
    await engine.aclose()
    assert [one.is_error for one in host.results()] == [True]
    assert list(secret.iterdir()) == []


async def test_a_card_says_what_the_person_must_know(
    model: ScriptedModel, host: RecorderHost
) -> None:
    host.decisions = [Decision(outcome="once")]
    model.script(Reply(calls=[BASH]))
    engine = host.engine("manual")
    assert await asyncio.wait_for(host.turn(engine), 10) == DONE
    await engine.aclose()
    start = await host.until(events.ToolStart)
    assert host.cards == [
        CardRequest(
            tool_call_id=start.toolCallId,
            name="bash",
            title="touch ran",
            kind="execute",
            args=BASH[1],
            reason="the manual mode asks before execute calls",
            purpose="To try it.",
            always="touch *",
        )
    ]
    assert [path.name for path in host.root.iterdir()] == ["ran"]
