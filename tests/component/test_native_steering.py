"""What a person says while a turn runs, and the turn's budgets."""

import asyncio

import pytest
from msgspec.structs import replace

from lembasd.engine.api import TurnOutcome
from lembasd.engine.native import engine as native
from lembasd.engine.native.core.context import Conversation
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol import events
from lembasd.protocol.control import Remote
from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.store.records import AnyRecord, Note, Steered, SystemPrompt, TurnError
from tests.support.png import png
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")


async def steered(
    host: RecorderHost, model: ScriptedModel, *said: tuple[str, bool], then: tuple[Reply, ...] = ()
) -> tuple[TurnOutcome, NativeEngine]:
    """A turn for which each text was said (True: by a person at this machine) during its first reply, and its engine."""
    hold = asyncio.Event()
    model.script(Reply(text="I look", hold=hold), *then)
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine, local=False))
    await host.until(events.Text)
    for text, local in said:
        engine.steer(text, "", local=local)
    hold.set()
    return await turn, engine


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


@pytest.mark.spec("steer: @path in the text")
async def test_a_file_that_a_message_names_is_shown_with_it_and_counts_as_read(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a.py").write_text("one\ntwo\n")
    (host.root / "shot.png").write_bytes(png(3, 2))
    text = "use @a.py#2, see @shot.png and @nowhere"
    read = Reply(calls=[("read", {"path": "a.py", "offset": 2, "limit": 1})])
    outcome, engine = await steered(host, model, ("first", True), (text, True), then=(read,))
    await engine.aclose()
    assert outcome == ENDED
    given, label, image = model.requests[1]["messages"][-1]["content"]
    size = len(png(3, 2))
    assert given["text"] == (
        f"first\n\n{text}\n\nAttached file a.py:\n     2\ttwo\n\n"
        f"Attached image shot.png (PNG, 3x2 pixels, {size} bytes)"
    )
    assert label == {"type": "text", "text": "The image of shot.png:"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert (
        host.results()[0].output == "[unchanged since the person's message, which shows lines 2-2]"
    )
    assert [one.texts for one in host.events if isinstance(one, events.Steered)] == [
        ["first", text]
    ]
    # opened again, the model is sent the same
    messages = Conversation(host.records).messages()
    assert [one["role"] for one in messages[:4]] == ["system", "user", "assistant", "user"]
    assert messages[3]["content"][0] == given


@pytest.mark.parametrize("local", [False, True])
async def test_a_message_over_the_link_names_files_in_the_devices_roots_alone(
    host: RecorderHost, model: ScriptedModel, *, local: bool
) -> None:
    (host.root / "in").mkdir()
    (host.root / "in" / "a").write_text("A\n")
    (host.root / "b").write_text("B\n")
    (host.root / "key").write_text("K\n")
    (host.root.parent / "c").write_text("C\n")
    host.protected = [host.root / "key"]
    roots = Remote(enabled=True, roots=[str(host.root / "in")])
    host.settings = replace(host.settings, remote=roots)
    _, engine = await steered(host, model, ("@b @key", True), ("@in/a @../c", local))
    await engine.aclose()
    content = model.requests[1]["messages"][-1]["content"]
    shown = [line for line in content.split("\n") if line.startswith("Attached")]
    # said by both, they are read together, and the limits bind all of it
    assert shown == ([*["Attached file b:"] * local, "Attached file in/a:"])


async def test_a_message_that_begins_like_a_command_is_text(
    host: RecorderHost, model: ScriptedModel
) -> None:
    _, engine = await steered(host, model, ("/compact", True))
    await engine.aclose()
    assert model.requests[1]["messages"][-1]["content"] == "/compact"


async def test_a_cancel_while_its_files_are_read_gives_the_message_back(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "shot.png").write_bytes(png(3, 2))
    host.stores_images.clear()
    turn = asyncio.ensure_future(steered(host, model, ("see @shot.png", True)))
    await host.image_came.wait()
    engine = host.last_engine
    engine.steer("and this", "")
    engine.cancel()
    outcome, _ = await turn
    await engine.aclose()
    assert outcome == TurnOutcome(stop_reason="cancelled", unsent=["see @shot.png", "and this"])
    assert not any(isinstance(one, Steered) for one in host.records)


async def test_a_message_that_comes_while_files_are_read_waits_for_the_step_after(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "shot.png").write_bytes(png(3, 2))
    host.stores_images.clear()
    turn = asyncio.ensure_future(steered(host, model, ("see @shot.png", True)))
    await host.image_came.wait()
    host.last_engine.steer("and this", "")
    host.stores_images.set()
    outcome, engine = await turn
    await engine.aclose()
    assert outcome == ENDED
    assert [one.texts for one in host.records if isinstance(one, Steered)] == [
        ["see @shot.png"],
        ["and this"],
    ]
    counts = [one.count for one in host.events if isinstance(one, events.Inbox)]
    assert counts == [1, 2, 1, 0]
