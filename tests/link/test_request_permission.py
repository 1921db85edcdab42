"""link.md, "session/request_permission": every way in which a card ends."""

import asyncio

import msgspec
import pytest

from tests.support.linked_hub import LinkedHub, call_of
from tests.support.scripted_model import Reply


async def outputs(hub: LinkedHub, session: str) -> list[tuple[str, bool]]:
    """What the model was told of its calls."""
    turns = (await hub.history(session))["turns"]
    tools = [tool for turn in turns for tool in turn.get("tools", [])]
    return [(tool["output"], tool["isError"]) for tool in tools]


def tool(hub: LinkedHub, name: str) -> None:
    """A program of the project's that says in a file what it was told."""
    path = hub.project / name
    path.write_text(f'#!/bin/sh\necho "$1" >> {name}.txt\n')
    path.chmod(0o755)


@pytest.mark.spec(
    "session/request_permission", "card: reason", "card: purpose", "card: always", "card: session"
)
async def test_a_card_is_the_one_of_the_spec(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    call = {"command": "./tool a", "purpose": "to see"}
    hub.model.script(Reply(calls=[("bash", call)]))
    turn = hub.prompt(session, "t1")
    card = await hub.client.card(session)
    lembas = card.params["_meta"]["lembas"]
    reason, always = (msgspec.json.encode(lembas[key]).decode() for key in ("reason", "always"))
    options = [one["name"] for one in card.params["options"]]
    asked = msgspec.json.encode(card.value["id"]).decode()
    assert card.text == (
        f'{{"jsonrpc":"2.0","id":{asked},"method":"session/request_permission","params":{{"sessionId":"{session}",'
        f'"toolCall":{{"toolCallId":"{call_of(card)}","title":"./tool a","kind":"execute",'
        '"rawInput":{"command":"./tool a","purpose":"to see"},"status":"pending"},"options":['
        f'{{"optionId":"once","name":"{options[0]}","kind":"allow_once"}},'
        f'{{"optionId":"session","name":"{options[1]}","kind":"allow_always"}},'
        f'{{"optionId":"deny","name":"{options[2]}","kind":"reject_once"}}],'
        f'"_meta":{{"lembas":{{"reason":{reason},"purpose":"to see","always":{always}}}}}}}}}'
    )
    start = await hub.client.event(session, "tool_start")
    assert start["toolCallId"] == call_of(card)
    hub.client.allow(card, "deny")
    await hub.client.answer(turn)


@pytest.mark.spec("card: once", "card: keyed by its call")
async def test_once_runs_the_call_and_the_next_is_asked_again(hub: LinkedHub) -> None:
    session, turn = await hub.commands("echo a >> once", "echo a >> once")
    cards = []
    for _ in range(2):
        cards.append(await hub.client.card(session))
        hub.client.allow(cards[-1])
    await hub.client.answer(turn)
    assert hub.ran("once") == ["a", "a"]
    assert call_of(cards[0]) != call_of(cards[1])


@pytest.mark.spec("card: session", "card: always")
async def test_for_the_session_the_same_call_is_not_asked_about_twice(hub: LinkedHub) -> None:
    tool(hub, "tool")
    session, turn = await hub.commands("./tool a", "./tool a", "./tool b")
    hub.client.allow(await hub.client.card(session), "session")
    other = await hub.client.card(session)
    hub.client.allow(other, "deny")
    await hub.client.answer(turn)
    assert other.params["toolCall"]["rawInput"] == {"command": "./tool b"}
    assert hub.ran("tool.txt") == ["a", "a"]


@pytest.mark.spec("card: session absent where it is never offered")
async def test_where_always_is_never_offered_there_are_two_options(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    hub.model.script(Reply(calls=[("settings", {"key": "mode", "value": "plan"})]))
    turn = hub.prompt(session, "t1")
    card = await hub.client.card(session)
    assert [one["optionId"] for one in card.params["options"]] == ["once", "deny"]
    assert "always" not in card.params["_meta"]["lembas"]
    hub.client.allow(card)
    await hub.client.answer(turn)
    assert (await hub.client.event(session, "mode"))["mode"] == "plan"


@pytest.mark.spec("card: deny", "card: feedback", "event tool_denied")
async def test_a_denial_runs_nothing_and_its_feedback_is_told(hub: LinkedHub) -> None:
    session, turn = await hub.commands(*(f"echo {one} >> denied" for one in "abcd"))
    hub.client.allow(await hub.client.card(session), "deny")
    hub.client.allow(await hub.client.card(session), "deny", feedback="use the other file")
    hub.client.reply(await hub.client.card(session), '{"outcome":{"outcome":"cancelled"}}')
    # what cannot be read is no yes
    hub.client.judge.faults.clear()
    card = await hub.client.card(session)
    asked = msgspec.json.encode(card.value["id"]).decode()
    hub.client.send(f'{{"jsonrpc":"2.0","id":{asked},"result":{{"outcome":"yes"}}}}', judged=False)
    await hub.client.answer(turn)
    told = await outputs(hub, session)
    assert (hub.ran("denied"), [is_error for _, is_error in told]) == ([], [True] * 4)
    assert "denied" in told[0][0]
    assert "use the other file" in told[1][0]
    denied = [await hub.client.event(session, "tool_denied") for _ in range(4)]
    assert [one["by"] for one in denied] == ["person"] * 4


@pytest.mark.spec("card: a corrected command", "card: a corrected command with once alone")
async def test_a_corrected_command_runs_in_the_place_of_the_one_that_was_asked(
    hub: LinkedHub,
) -> None:
    tool(hub, "corrected")
    session, turn = await hub.commands("./corrected wrong", "./corrected asked")
    hub.client.allow(await hub.client.card(session), command="echo right >> corrected.txt")
    hub.client.allow(
        await hub.client.card(session), "session", command="echo other >> corrected.txt"
    )
    await hub.client.answer(turn)
    assert hub.ran("corrected.txt") == ["right", "asked"]


@pytest.mark.spec("card: several at once")
async def test_cards_of_several_sessions_and_calls_stand_beside_each_other(hub: LinkedHub) -> None:
    first, second = await hub.new(mode="manual"), await hub.new(mode="manual")
    hub.model.script(Reply(calls=[("bash", {"command": "echo 1 >> several"})]))
    one = hub.prompt(first, "t1")
    card = await hub.client.card(first)
    hub.model.script(Reply(calls=[("bash", {"command": "echo 2 >> several"})]))
    two = hub.prompt(second, "t1")
    other = await hub.client.card(second)
    assert card.value["id"] != other.value["id"]
    hub.client.allow(other)
    await hub.client.answer(two)
    hub.client.allow(card)
    await hub.client.answer(one)
    assert hub.ran("several") == ["2", "1"]
    # an answer that comes twice, or to nothing, is nobody's
    hub.client.allow(other)
    assert '"stopReason":"end_turn"' in await hub.turn(second, "t2")


@pytest.mark.spec("card: asked again on the next link")
async def test_a_card_survives_its_link_and_its_hub(own_hub: LinkedHub) -> None:
    hub = own_hub
    session, _ = await hub.commands("echo a >> ran")
    card = await hub.client.card(session)
    await hub.again()
    second = await hub.client.card(session)
    await hub.install.kill_hub()
    await hub.install.start_hub()
    await hub.linked()
    third = await hub.client.card(session)
    assert call_of(card) == call_of(second) == call_of(third)
    hub.client.allow(third)
    async with asyncio.timeout(20):
        await hub.client.event(session, "done")
    assert hub.ran("ran") == ["a"]
