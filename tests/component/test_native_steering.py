"""What a person says while a turn runs, and the turn's budgets."""

import asyncio

import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.engine.native import engine as native
from lembasd.engine.native.core.context import Conversation
from lembasd.protocol import events
from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.store.records import AnyRecord, Note, Steered, SystemPrompt, TurnError
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")


@pytest.mark.spec("steer: messageId")
async def test_a_message_is_taken_in_at_the_next_step(
    host: RecorderHost, model: ScriptedModel
) -> None:
    hold = asyncio.Event()
    model.script(
        Reply(text="I look", calls=[("list", {})], hold=hold), Reply(text="in French, then")
    )
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await host.until(events.Text)
    assert engine.steer("in French, please", "msg-7") == 1
    assert engine.steer("and short", "") == 2
    hold.set()
    assert await turn == ENDED
    await engine.aclose()
    said = model.requests[1]["messages"]
    assert [one["role"] for one in said] == ["system", "user", "assistant", "tool", "user"]
    assert said[-1]["content"] == "in French, please\n\nand short"
    texts = ["in French, please", "and short"]
    told = [one for one in host.events if isinstance(one, events.Inbox | events.Steered)]
    assert told == [
        events.Inbox(count=1),
        events.Inbox(count=2),
        events.Steered(texts=texts, ids=["msg-7"]),
        events.Inbox(count=0),
    ]
    assert Steered(texts=texts, ids=["msg-7"]) in host.records
    assert Conversation(host.records).messages()[: len(said)] == said


async def test_a_message_during_the_last_reply_is_answered_in_the_same_turn(
    host: RecorderHost, model: ScriptedModel
) -> None:
    hold = asyncio.Event()
    model.script(Reply(text="Done.", hold=hold), Reply(text="That too."))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await host.until(events.Text)
    engine.steer("and the tests?", "")
    hold.set()
    assert await turn == ENDED
    await engine.aclose()
    assert [one["content"] for one in model.requests[1]["messages"][1:]] == [
        "go",
        "Done.",
        "and the tests?",
    ]


async def test_what_a_cancelled_turn_did_not_take_in_is_given_back(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(text="Done.", hold=asyncio.Event()))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await host.until(events.Text)
    engine.steer("and the tests?", "m")
    engine.cancel()
    assert await turn == TurnOutcome(stop_reason="cancelled", unsent=["and the tests?"])
    await engine.aclose()


async def test_a_message_for_no_turn_is_refused(host: RecorderHost, model: ScriptedModel) -> None:
    engine = host.engine()
    refused = TurnError(INVALID_PARAMS, "the turn has just ended; send it as a prompt")
    assert engine.steer("hello?", "") == refused
    await host.turn(engine)
    assert engine.steer("hello?", "") == refused
    await engine.aclose()


async def test_only_so_many_messages_wait(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(Reply(text="Done.", hold=asyncio.Event()))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await host.until(events.Text)
    answers = [engine.steer("more", "") for _ in range(native.MAX_STEERS + 1)]
    assert answers[:-1] == list(range(1, native.MAX_STEERS + 1))
    assert isinstance(answers[-1], TurnError)
    engine.cancel()
    await turn
    await engine.aclose()


async def test_a_prompt_that_is_steered_before_its_first_request_is_one_message(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()

    def steered(record: AnyRecord) -> bool:
        if isinstance(record, SystemPrompt):
            assert engine.steer("quickly", "") == 1
        return False

    host.full_disk = steered  # it is asked before each record
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    assert model.requests[0]["messages"][1:] == [{"role": "user", "content": "go\n\nquickly"}]


async def test_a_word_of_the_harness_and_the_person_s_are_one_message(
    host: RecorderHost, model: ScriptedModel
) -> None:
    hold = asyncio.Event()
    model.script(Reply(text="half", finish="length", hold=hold))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await host.until(events.Text)
    engine.steer("quickly", "")
    hold.set()
    assert await turn == ENDED
    await engine.aclose()
    (word,) = [one.text for one in host.records if isinstance(one, Note)]
    assert model.requests[1]["messages"][-1]["content"] == f"{word}\n\nquickly"
