"""Servers that want to be asked differently, answer strangely, or hold on; by the number of the quirk."""

import asyncio
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.engine.native import model_client
from lembasd.protocol import events
from lembasd.store.records import AnyRecord, Assistant, Learned
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")


async def turns(host: RecorderHost, *names: str, records: list[AnyRecord] | None = None) -> None:
    """Run turns that all end well in one engine."""
    engine = host.engine(records=records)
    for name in names:
        assert await host.turn(engine, name) == ENDED
    await engine.aclose()


def refusal(status: int, message: str, **more: Any) -> Reply:
    raw = msgspec.json.encode({"error": {"message": message, **more}})
    return Reply(status=status, raw=raw, headers={"Content-Type": "application/json"})


def learnt(host: RecorderHost) -> list[str]:
    return [one.fact for one in host.records if isinstance(one, Learned)]


def sse(*chunks: Any) -> bytes:
    texts = [one if isinstance(one, bytes) else msgspec.json.encode(one) for one in chunks]
    return b"".join(b"data: " + one + b"\n\n" for one in texts)


def said(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def retracted(host: RecorderHost) -> int:
    return sum(isinstance(one, events.Retract) for one in host.events)


def last_text(host: RecorderHost) -> str:
    return [one.text for one in host.records if isinstance(one, Assistant)][-1]


async def test_q28_what_a_server_does_not_take_is_left_out_at_once_and_ever_after(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(refusal(422, "Extra inputs are not permitted: stream_options"))
    await turns(host, "t1", "t2")
    assert ["stream_options" in one for one in model.requests] == [True, False, False]
    assert learnt(host) == ["no_stream_options"]
    assert [one for one in host.events if isinstance(one, events.Notice)] == []


async def test_what_was_learnt_is_known_when_the_session_opens_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    await turns(host, "t1", records=[Learned(fact="no_stream_options"), Learned(window=4096)])
    assert "stream_options" not in model.requests[0]


async def test_q37_a_server_that_streams_nothing_is_asked_for_whole_replies(
    host: RecorderHost, model: ScriptedModel
) -> None:
    whole = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    model.script(Reply(raw=b""), Reply(raw=msgspec.json.encode(whole)))
    await turns(host, "t1")
    assert [one["stream"] for one in model.requests] == [True, False]
    assert (learnt(host), last_text(host)) == (["no_stream"], "whole")


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/plain"])
async def test_q36_an_answer_is_read_as_what_it_is_whatever_its_header_says(
    host: RecorderHost, model: ScriptedModel, kind: str
) -> None:
    header = {"Content-Type": kind}
    whole = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    model.script(
        Reply(raw=b"\n " + msgspec.json.encode(whole), headers=header),
        Reply(raw=sse(said("streamed", "stop"), b"[DONE]"), headers=header),
    )
    await turns(host, "t1", "t2")
    assert [one.text for one in host.records if isinstance(one, Assistant)] == ["whole", "streamed"]


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
async def test_q29_a_connection_that_stays_open_after_the_end_holds_nobody(
    host: RecorderHost, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(model_client, "AFTER_FINISH_S", 0.1)
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    forever = asyncio.Event()
    model.script(Reply(raw=sse(said("Hi", "stop"), usage) + end, hold=forever))
    await turns(host, "t1")
    (kept,) = [one for one in host.records if isinstance(one, Assistant)]
    assert (kept.text, kept.input_tokens) == ("Hi", 5)


async def test_a_server_that_falls_silent_in_a_reply_is_asked_again(
    host: RecorderHost, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_client, "IDLE_TIMEOUT_S", 0.1)
    model.script(Reply(raw=sse(said("Hal")), hold=asyncio.Event()), Reply(text="Hello"))
    await turns(host, "t1")
    assert (retracted(host), last_text(host)) == (1, "Hello")


async def test_q30_an_end_without_a_reason_is_an_end_but_not_in_a_call(
    host: RecorderHost, model: ScriptedModel
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"path":"a'}}
    open_call = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    model.script(
        Reply(raw=sse(said("Hi"), b"[DONE]")),
        Reply(raw=sse(open_call, b"[DONE]")),
        Reply(text="again"),
    )
    await turns(host, "t1", "t2")
    assert [one.text for one in host.records if isinstance(one, Assistant)] == ["Hi", "again"]


@pytest.mark.parametrize(
    "words", ["error parsing tool call: raw='{'", "does not match the expected peg-native format"]
)
async def test_q19_q66_what_a_model_wrote_wrong_is_asked_once_more_at_once(
    host: RecorderHost, model: ScriptedModel, words: str
) -> None:
    model.script(refusal(500, words))
    await turns(host, "t1")
    assert len(model.requests) == 2
    assert [one for one in host.events if isinstance(one, events.Notice)] == []
    model.script(refusal(500, words), refusal(500, words))
    engine = host.engine()
    outcome = await host.turn(engine, "t2")
    await engine.aclose()
    assert outcome.error is not None
    assert outcome.error.message.endswith("asked twice, send it again")


async def test_q57_a_model_that_loads_is_waited_for_longer_than_a_busy_one(
    host: RecorderHost, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_client, "LOADING_STEP_S", 0.01)
    model.script(*(refusal(503, "Loading model") for _ in range(9)), Reply(text="Hi"))
    await turns(host, "t1")
    assert (len(model.requests), last_text(host)) == (10, "Hi")


async def test_q52_a_conversation_that_stays_too_long_is_an_error_of_its_own_and_the_window_is_kept(
    host: RecorderHost, model: ScriptedModel
) -> None:
    too_long = refusal(400, "the request exceeds the available context size", n_ctx=4096)
    model.choose = lambda _body: too_long
    engine = host.engine()
    outcome = await host.turn(engine)
    await engine.aclose()
    assert outcome.error is not None
    assert outcome.error.data == {"reason": "context"}
    assert [one.window for one in host.records if isinstance(one, Learned)] == [4096]
    assert len(model.requests) == 4  # as it is, and each way to have it summed up


async def test_q39_a_server_that_wants_its_reasoning_back_gets_it_in_later_turns_too(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(
        Reply(reasoning="look first", calls=[("list", {})]),
        Reply(text="one", reasoning="that was it"),
        refusal(400, "The reasoning_content in the thinking mode must be passed back to the API."),
        Reply(text="two"),
        Reply(text="three"),
    )
    await turns(host, "t1", "t2", "t3")
    given = [
        [one.get("reasoning_content") for one in request["messages"] if one["role"] == "assistant"]
        for request in model.requests
    ]
    assert given == [
        [],
        ["look first"],
        [None, None],
        ["look first", None],
        ["look first", None, None],
    ]


async def test_q40_reasoning_whose_opening_tag_is_in_the_template_is_taken_back_once(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(text="hm</think>One"), Reply(text="hm</think>Two"))
    await turns(host, "t1", "t2")
    kept = [(one.reasoning, one.text) for one in host.records if isinstance(one, Assistant)]
    assert kept == [("hm", "One"), ("hm", "Two")]
    assert (retracted(host), learnt(host)) == (1, ["thinks"])


async def test_q22_a_call_that_came_as_text_is_taken_back_and_runs(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("here\n")
    text = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    model.script(Reply(text=text), Reply(text="done"))
    await turns(host, "t1")
    assert retracted(host) == 1
    assert "here" in host.results()[0].output
    assert model.requests[1]["messages"][-2]["tool_calls"][0]["function"]["name"] == "read"


async def test_q42_what_a_server_added_to_a_call_goes_back_to_it(
    host: RecorderHost, model: ScriptedModel
) -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    call = {
        "index": 0,
        "id": "a",
        "function": {"name": "list", "arguments": "{}"},
        "extra_content": extra,
    }
    delta = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}
    model.script(Reply(raw=sse(delta, b"[DONE]")), Reply(text="done"))
    await turns(host, "t1")
    (sent,) = model.requests[1]["messages"][-2]["tool_calls"]
    assert sent == {
        "id": "a",
        "type": "function",
        "function": {"name": "list", "arguments": "{}"},
        "extra_content": extra,
    }


async def test_q46_roles_alternate_after_a_turn_that_said_nothing(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    model.script(refusal(400, "no"), Reply(text="Hi"))
    assert (await host.turn(engine, "t1")).error is not None
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()
    roles = [one["role"] for one in model.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


async def test_q35_an_error_after_which_the_stream_hangs_ends_the_request(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(
        Reply(raw=sse(said("Hal"), b"Internal error"), hold=asyncio.Event()), Reply(text="Hi")
    )
    await turns(host, "t1")
    assert (retracted(host), last_text(host)) == (1, "Hi")
