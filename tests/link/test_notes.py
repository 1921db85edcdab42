"""link.md, "Notes"."""

import pytest

from tests.support.linked_hub import LinkedHub, named


@pytest.mark.spec("files/search: root", "session/prompt: @path")
async def test_search_and_mentions_are_of_the_sessions_working_directory(hub: LinkedHub) -> None:
    (hub.project / ".git").mkdir()
    sub = hub.project / "sub"
    sub.mkdir()
    (sub / "here.md").write_text("in the sub\n")
    (hub.project / "here.md").write_text("at the root\n")
    for cwd, text in ((sub, "in the sub"), (hub.project, "at the root")):
        made = await hub.client.value("session/new", f'{{"cwd":"{cwd}","mcpServers":[]}}')
        session = made["sessionId"]
        found = await hub.client.value("_lembas/files/search", named(session, query="here.md"))
        assert found["root"] == str(cwd)
        assert {"path": "here.md", "kind": "file"} in found["files"]
        await hub.turn(session, "t1", "see @here.md")
        assert text in str(hub.messages()[-1]["content"])


@pytest.mark.spec("session/prompt: /plan with a task is a prompt in plan mode")
async def test_plan_with_a_task_is_a_prompt_and_without_one_an_action(hub: LinkedHub) -> None:
    session = await hub.new(mode="edit")
    assert await hub.turn(session, "t1", "/plan bake bread") == (
        '{"stopReason":"end_turn","_meta":{"lembas":{"turnId":"t1","command":"plan"}}}'
    )
    assert (await hub.client.event(session, "mode"))["mode"] == "plan"
    assert "bake bread" in str(hub.messages()[-1]["content"])
    asked = len(hub.model.requests)
    other = await hub.new(mode="edit")
    assert await hub.turn(other, "t1", "/plan") == (
        '{"stopReason":"end_turn","_meta":{"lembas":{"turnId":"t1","command":"plan","mode":"plan"}}}'
    )
    assert len(hub.model.requests) == asked
