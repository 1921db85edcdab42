"""link.md, `_lembas/session/history`."""

import msgspec
import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, named
from tests.support.scripted_model import Reply


@pytest.mark.spec(
    "_lembas/session/history", "history: turnId", "history: tools", "history: reasoning"
)
async def test_it_has_prompts_replies_reasoning_and_calls(own_hub: LinkedHub) -> None:
    hub = own_hub
    (hub.project / "a").write_text("one\n")
    session = await hub.new()
    hub.model.script(
        Reply(text="I look.", reasoning="look first", calls=[("read", {"path": "a"})]),
        Reply(calls=[("read", {"path": "none"})]),
        Reply(text="done"),
    )
    await hub.turn(session, "t1", "see it")
    text = await hub.client.ask("_lembas/session/history", named(session))
    tools = [tool for turn in msgspec.json.decode(text)["turns"] for tool in turn.get("tools", [])]
    first, second = (msgspec.json.encode(tool["output"]).decode() for tool in tools)
    assert "one" in first
    assert "none" in second
    ids = [tool["id"] for tool in tools]
    assert text == (
        f'{{"sessionId":"{session}","title":"see it","root":"{hub.project}","turns":['
        '{"role":"user","text":"see it","turnId":"t1"},'
        '{"role":"assistant","text":"I look.","reasoning":"look first","tools":['
        f'{{"id":"{ids[0]}","name":"read","args":{{"path":"a"}},"output":{first},"isError":false}}]}},'
        '{"role":"assistant","text":"","reasoning":"","tools":['
        f'{{"id":"{ids[1]}","name":"read","args":{{"path":"none"}},"output":{second},"isError":true}}]}},'
        '{"role":"assistant","text":"done","reasoning":"","tools":[]}]}'
    )
    # nobody has it open any more: it is read from the store, and is the same
    await hub.install.stop()
    await hub.install.start_hub()
    client = await hub.linked()
    assert await client.ask("_lembas/session/history", named(session)) == text
    assert (await hub.install.status())["workers"] == []


@pytest.mark.spec("history: turnId")
async def test_a_turn_that_named_no_id_has_the_one_that_was_made(hub: LinkedHub) -> None:
    session = await hub.new()
    prompt = named(session, prompt=[{"type": "text", "text": "x"}])
    made = await hub.client.value("session/prompt", prompt)
    (user, _) = (await hub.history(session))["turns"]
    assert user == {
        "role": "user",
        "text": "x",
        "turnId": made["_meta"]["lembas"]["turnId"],
    }


async def test_an_empty_and_an_unknown_session(hub: LinkedHub) -> None:
    session = await hub.new()
    assert await hub.client.ask("_lembas/session/history", named(session)) == (
        f'{{"sessionId":"{session}","title":"","root":"{hub.project}","turns":[]}}'
    )
    unknown = await hub.client.ask("_lembas/session/history", named("ses_" + "0" * 26))
    assert unknown == UNKNOWN


async def test_a_call_that_runs_has_no_output_yet(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    hub.model.script(Reply(calls=[("bash", {"command": "echo a > b"})]))
    running = hub.prompt(session, "t1")
    card = await hub.client.card(session)
    (tool,) = (await hub.history(session))["turns"][1]["tools"]
    assert tool == {
        "id": card.params["toolCall"]["toolCallId"],
        "name": "bash",
        "args": {"command": "echo a > b"},
    }
    hub.client.allow(card, "deny")
    await hub.client.answer(running)
