"""Our own extension `replay`, for a client that asks for it: numbered messages, and the rest of them on the next link."""

import json
import os
import signal

import pytest

from tests.support.bare_client import BareClient, Message
from tests.support.linked_hub import LinkedHub

GAP = '"method":"_hub/gap"'


def asking(replay: object) -> str:
    lembas = {"protocol": 3, "show": True, "replay": replay}
    return json.dumps({"protocolVersion": 1, "clientCapabilities": {"_meta": {"lembas": lembas}}})


def number(message: Message) -> tuple[int, int]:
    epoch, seq = message.params["_meta"]["lembas"]["seq"].split(":")
    return int(epoch), int(seq)


def numbers(events: list[Message]) -> list[tuple[int, int]]:
    """The numbers of these; what is told to a newcomer alone has none."""
    alone = [one for one in events if "_meta" not in one.params]
    assert {one.params["event"]["type"] for one in alone} <= {"session"}
    return [number(one) for one in events if one not in alone]


async def texts(client: BareClient, session: str, until: str) -> list[Message]:
    """The events of a session up to the one that has this text."""
    seen: list[Message] = []
    while not seen or until not in seen[-1].text:
        seen.append(
            await client.said('"method":"_lembas/event"', f'"params":{{"sessionId":"{session}"')
        )
    return seen


async def test_who_does_not_ask_finds_no_numbers(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.turn(session, "t1")
    events = await texts(hub.client, session, '"type":"done"')
    assert not [one for one in events if "_meta" in one.params]
    assert "replay" not in hub.client.about["_meta"]["lembas"]["capabilities"]


async def test_messages_are_numbered_without_a_gap(own_hub: LinkedHub) -> None:
    client = await own_hub.again(asking(replay=True))
    assert "replay" in client.about["_meta"]["lembas"]["capabilities"]
    session = await own_hub.new()
    await own_hub.turn(session, "t1")
    await texts(client, session, '"type":"done"')
    updates = [one for one in client.told if '"sessionUpdate":"agent_message_chunk"' in one.text]
    assert {tuple(sorted(one.params)) for one in updates} == {("_meta", "sessionId", "update")}
    await own_hub.turn(session, "t2")
    found = numbers(await texts(client, session, '"type":"done"'))
    assert found == sorted(set(found))
    assert {epoch for epoch, _ in found} == {1}


async def test_the_next_link_is_given_what_was_missed_and_nothing_twice(
    own_hub: LinkedHub,
) -> None:
    client = await own_hub.again(asking(replay=True))
    session = await own_hub.new()
    turn, hold = await own_hub.working(session, "t1")
    seen = max(number(one) for one in client.told if "_meta" in one.params)
    assert turn
    last = f"{seen[0]}:{seen[1]}"
    client = await own_hub.again(asking(replay={session: last}))
    hold.set()
    events = await texts(client, session, '"type":"done"')
    found = numbers(events)
    assert min(found) > seen
    assert found == sorted(set(found))
    assert not [one for one in client.told if GAP in one.text]


async def test_what_was_said_while_there_was_no_hub_comes_once_and_in_order(
    own_hub: LinkedHub,
) -> None:
    client = await own_hub.again(asking(replay=True))
    session = await own_hub.new()
    _, hold = await own_hub.working(session, "t1")
    last = max(number(one) for one in client.told if "_meta" in one.params)
    own_hub.install.milestones.seen.clear()
    await own_hub.install.kill_hub()
    hold.set()
    ended = await own_hub.install.milestones.wait("worker.turn_ended", session_id=session)
    # it finds the next hub only once the link is there
    os.kill(ended["pid"], signal.SIGSTOP)
    await own_hub.install.start_hub()
    client = await own_hub.linked(asking(replay={session: f"{last[0]}:{last[1]}"}))
    os.kill(ended["pid"], signal.SIGCONT)
    await own_hub.turn(session, "t2")
    found = [number(one) for one in client.told if "_meta" in one.params]
    assert found == list(dict.fromkeys(sorted(found)))
    assert min(found) == (last[0], last[1] + 1)
    assert not [one for one in client.told if GAP in one.text]


@pytest.mark.parametrize("since", ["9:1", "1:999999", "nonsense"])
async def test_what_cannot_be_given_is_a_gap(own_hub: LinkedHub, since: str) -> None:
    await own_hub.again(asking(replay=True))
    session = await own_hub.new()
    await own_hub.turn(session, "t1")
    client = await own_hub.again(asking(replay={session: since}))
    gap = await client.said(GAP)
    assert gap.params == {"sessionId": session, "since": since}


async def test_a_session_that_opens_again_says_that_its_numbers_begin_anew(
    own_hub: LinkedHub,
) -> None:
    await own_hub.again(asking(replay=True))
    session = await own_hub.new()
    await own_hub.turn(session, "t1")
    await own_hub.install.end()
    await own_hub.install.start_hub()
    client = await own_hub.linked(asking(replay={session: "1:3"}))
    await own_hub.turn(session, "t2")
    assert (await client.said(GAP)).params == {"sessionId": session, "since": "1:3"}
    events = await texts(client, session, '"type":"done"')
    assert {epoch for epoch, _ in numbers(events)} == {2}
