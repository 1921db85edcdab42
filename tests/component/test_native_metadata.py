"""What is known of a model and its server: metadata, facts that other sessions learnt, prices, progress, images."""

import base64
from typing import Any

import msgspec

from lembasd.engine.api import TurnOutcome
from lembasd.engine.native.core.images import GONE, MAX_IMAGES, NOT_TAKEN, TOO_MANY
from lembasd.protocol import events
from lembasd.protocol.errors import INTERNAL_ERROR
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Compacted,
    Image,
    Learned,
    ToolResult,
    TurnAccepted,
    TurnError,
    TurnStarted,
)
from tests.support.png import png
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")
PNG = Image("image/png", "image1")


async def turn(host: RecorderHost, records: list[AnyRecord] | None = None) -> TurnOutcome:
    engine = host.engine(records=records)
    outcome = await host.turn(engine)
    await engine.aclose()
    return outcome


def says(model: ScriptedModel, **metadata: Any) -> None:
    model.models = [{"id": "other"}, {"id": "scripted", **metadata}]


def refusal(message: str) -> Reply:
    return Reply(status=400, raw=msgspec.json.encode({"error": {"message": message}}))


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(one) + b"\n\n" for one in chunks)


def of(host: RecorderHost, *kinds: Any) -> list[Any]:
    return [one for one in host.events if isinstance(one, kinds)]


# ── facts ───────────────────────────────────────────────────────────────────────────────────────


async def test_what_one_session_was_refused_another_does_not_ask_for(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(refusal("unknown field: stream_options"))
    assert await turn(host) == ENDED
    assert host.facts == {(model.base_url, "scripted"): ["no_stream_options"]}
    other = RecorderHost(host.root, model.base_url)
    other.facts = host.facts
    assert await turn(other) == ENDED
    assert ["stream_options" in one for one in model.requests] == [True, False, False]
    assert Learned(fact="no_stream_options") in other.records


async def test_a_session_that_has_begun_keeps_its_own_facts(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.facts = {(model.base_url, "scripted"): ["null_content"]}
    earlier: list[AnyRecord] = [
        TurnAccepted(turn_id="t0", text="go"),
        TurnStarted(turn_id="t0"),
        Assistant(turn_id="t0", message_id="m", model="scripted", text="so"),
    ]
    assert await turn(host, records=earlier) == ENDED
    assert [one for one in host.records if isinstance(one, Learned)] == []


async def test_what_was_no_refusal_holds_for_the_session_alone(
    host: RecorderHost, model: ScriptedModel
) -> None:
    whole = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    model.script(Reply(raw=b""), Reply(raw=msgspec.json.encode(whole)))
    assert await turn(host) == ENDED
    assert (host.facts, Learned(fact="no_stream") in host.records) == ({}, True)
    assert of(host, events.Flash) == [
        events.Flash(text="the model's server streams nothing; replies come whole")
    ]


# ── metadata ────────────────────────────────────────────────────────────────────────────────────


async def test_a_model_that_takes_no_tools_is_refused_in_words(
    host: RecorderHost, model: ScriptedModel
) -> None:
    says(model, tools=False)
    message = "scripted takes no tools, which an agent needs; choose another model"
    assert await turn(host) == TurnOutcome(
        error=TurnError(INTERNAL_ERROR, message, {"reason": "model"})
    )
    assert model.requests == []


async def test_a_model_s_price_and_window_are_told_with_its_usage(
    host: RecorderHost, model: ScriptedModel
) -> None:
    says(model, context=32_000, price={"currency": "EUR", "input": 1000.0, "output": 2000.0})
    assert await turn(host) == ENDED
    assert of(host, events.Usage) == [
        events.Usage(input=7, output=3, context=10, window=32_000, cost=events.Cost(0.013, "EUR"))
    ]


async def test_a_server_s_own_word_for_the_cost_is_told(
    host: RecorderHost, model: ScriptedModel
) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.25}
    chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage}
    model.script(Reply(raw=sse(chunk)))
    assert await turn(host) == ENDED
    assert of(host, events.Usage) == [
        events.Usage(input=7, output=3, context=10, cost=events.Cost(0.25, "USD"))
    ]


async def test_how_much_of_the_prompt_is_read_is_told_where_the_server_says_it(
    host: RecorderHost, model: ScriptedModel
) -> None:
    says(model, owned_by="llamacpp")
    read = [{"choices": [], "prompt_progress": {"total": 90, "processed": n}} for n in (32, 90)]
    chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    model.script(Reply(raw=sse(*read, chunk)))
    assert await turn(host) == ENDED
    assert model.requests[0]["return_progress"] is True
    assert of(host, events.Progress) == [
        events.Progress(read=32, total=90),
        events.Progress(read=90, total=90),
    ]


async def test_q70_a_template_that_leaves_the_tools_out_is_told_once(
    host: RecorderHost, model: ScriptedModel
) -> None:
    def counted(tokens: int) -> Reply:
        usage = {"prompt_tokens": tokens, "completion_tokens": 3}
        chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
        return Reply(raw=sse(chunk, {"choices": [], "usage": usage}))

    model.script(counted(300), counted(310))
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()
    (notice,) = of(host, events.Notice)
    assert notice.text.startswith("the model's server leaves the tools out")


async def test_q53_a_window_that_is_cut_without_a_word_is_found_by_the_count(
    host: RecorderHost, model: ScriptedModel
) -> None:
    usage = {"prompt_tokens": 2_000, "completion_tokens": 3}
    chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    counted = sse(chunk, {"choices": [], "usage": usage})
    model.script(Reply(raw=counted), Reply(text="a summary"), Reply(text="Hi"))
    engine = host.engine()
    text = "all of it " * 4_000  # some 16,000 tokens
    assert await host.turn(engine, "t1", text) == ENDED
    assert await host.turn(engine, "t2", text) == ENDED
    await engine.aclose()
    (notice,) = of(host, events.Notice)
    assert notice.text.startswith("the model's server has read 2000 tokens only")
    assert Learned(window=2_000) in host.records
    (summed_up,) = [one for one in host.records if isinstance(one, Compacted)]
    assert (summed_up.input_tokens, summed_up.output_tokens) == (7, 3)
    assert of(host, events.Usage)[1] == events.Usage(input=7, output=3, window=2_000)


# ── images ──────────────────────────────────────────────────────────────────────────────────────


def shown(*images: Image) -> list[AnyRecord]:
    """A step that showed images, one a call."""
    calls = [
        Call(id=f"c{n}", server_id=f"s{n}", name="read", arguments="{}", args={})
        for n in range(len(images))
    ]
    return [
        TurnAccepted(turn_id="t0", text="look"),
        TurnStarted(turn_id="t0"),
        Assistant(turn_id="t0", message_id="m", model="scripted", calls=calls),
        *(
            ToolResult(call_id=f"c{n}", result_id=f"#{n + 1:04x}", output="ok", images=[image])
            for n, image in enumerate(images)
        ),
        Assistant(turn_id="t0", message_id="m2", model="scripted", text="I see"),
    ]


async def test_images_follow_the_results_of_their_step(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.images = {"image1": b"x"}
    assert await turn(host, records=shown(PNG, PNG)) == ENDED
    said = model.requests[0]["messages"][3:6]
    assert [one["role"] for one in said] == ["tool", "tool", "user"]
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}
    assert said[2]["content"] == [
        {"type": "text", "text": "The image of #0001:"},
        part,
        {"type": "text", "text": "The image of #0002:"},
        part,
    ]


async def test_q54_a_model_that_takes_no_images_is_told_of_them_instead(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.images = {"image1": b"x"}
    model.script(refusal("image input is not supported by this server"))
    assert await turn(host, records=shown(PNG)) == ENDED
    assert model.requests[1]["messages"][4]["content"] == f"The image of #0001:\n{NOT_TAKEN}"
    assert of(host, events.Flash) == [
        events.Flash(text="this model takes no images; it is asked without")
    ]


async def test_a_model_without_vision_is_never_sent_an_image(
    host: RecorderHost, model: ScriptedModel
) -> None:
    says(model, vision=False)
    assert await turn(host, records=shown(PNG)) == ENDED
    assert model.requests[0]["messages"][4]["content"] == f"The image of #0001:\n{NOT_TAKEN}"


async def test_an_image_that_is_gone_is_told(host: RecorderHost, model: ScriptedModel) -> None:
    assert await turn(host, records=shown(PNG)) == ENDED
    assert model.requests[0]["messages"][4]["content"][1] == {"type": "text", "text": GONE}


async def test_only_so_many_images_are_shown(host: RecorderHost, model: ScriptedModel) -> None:
    host.images = {"image1": b"x"}
    assert await turn(host, records=shown(*[PNG] * (MAX_IMAGES + 1))) == ENDED
    parts = model.requests[0]["messages"][3 + MAX_IMAGES + 1]["content"]
    assert len([one for one in parts if one["type"] == "image_url"]) == MAX_IMAGES
    assert parts[-1] == {"type": "text", "text": f"#{MAX_IMAGES + 1:04x}: {TOO_MANY}"}


def looks_at(model: ScriptedModel) -> None:
    """The model reads an image, then answers."""
    model.script(Reply(calls=[("read", {"path": "shot.png"})]), Reply(text="I see"))


async def test_an_image_that_is_read_reaches_a_model_that_sees(
    host: RecorderHost, model: ScriptedModel
) -> None:
    data = png(3, 2)
    (host.root / "shot.png").write_bytes(data)
    looks_at(model)
    assert await turn(host) == ENDED
    (result,) = host.results()
    about = f"shot.png is an image (PNG, 3x2 pixels, {len(data)} bytes)"
    assert (result.output, result.images) == (about, [PNG])
    assert host.images == {PNG.name: data}
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    assert model.requests[1]["messages"][-1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "The image of #0001:"},
            {"type": "image_url", "image_url": {"url": url}},
        ],
    }


async def test_an_image_that_is_read_is_told_of_to_a_model_that_does_not_see(
    host: RecorderHost, model: ScriptedModel
) -> None:
    says(model, vision=False)
    (host.root / "shot.png").write_bytes(png(3, 2))
    looks_at(model)
    assert await turn(host) == ENDED
    assert model.requests[1]["messages"][-1] == {
        "role": "user",
        "content": f"The image of #0001:\n{NOT_TAKEN}",
    }


async def test_an_image_for_which_the_disk_has_no_room_is_an_error(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "shot.png").write_bytes(png(3, 2))
    host.has_room_for_images = False
    looks_at(model)
    assert await turn(host) == ENDED
    (result,) = host.results()
    assert result.output.endswith(" bytes), but it cannot be shown: No space left on device")
    assert (result.is_error, result.images) == (True, [])
