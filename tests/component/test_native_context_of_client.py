"""The native engine with another model, with what the client holds, and after a rewind."""

from typing import Any

import pytest
from msgspec.structs import replace

from lembasd.engine.native.choosing import choose
from lembasd.protocol.context import Context, Personalization
from lembasd.protocol.control import Account
from lembasd.protocol.errors import RequestRefused
from lembasd.store.records import (
    AnyRecord,
    ContextSet,
    Learned,
    Rewound,
    SessionNote,
    SystemPrompt,
    TurnEnded,
)
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

MODELS: list[dict[str, Any]] = [
    {"id": "thinker", "efforts": ["low", "high"], "default_effort": "high", "context": 50_000},
    {"id": "speaker", "kind": "tts"},
    {"id": "scripted"},
]


async def test_a_model_is_chosen_from_what_the_instance_serves(
    host: RecorderHost, model: ScriptedModel
) -> None:
    account = Account(model.base_url, "token", connection="moria", instance_name="Moria")
    # a server that says nothing of its models is taken at the client's word
    assert await choose(host, account, "any", "wild") == ("any", "wild")
    model.models = MODELS
    assert await choose(host, account, "thinker", "low") == ("thinker", "low")
    assert await choose(host, account, "moria/thinker", "default") == ("thinker", "high")
    assert await choose(host, account, "scripted", "high") == ("scripted", "default")
    for name, says in (("none", "Moria serves no model 'none'"), ("speaker", "for tts")):
        with pytest.raises(RequestRefused, match=says) as refused:
            await choose(host, account, name, "low")
        assert (refused.value.code, refused.value.data) == (-32602, {"reason": "model"})


async def test_the_list_is_asked_for_once_and_again_for_a_model_that_it_lacks(
    host: RecorderHost, model: ScriptedModel
) -> None:
    account = Account(model.base_url, "token")
    model.models = MODELS
    await choose(host, account, "thinker", "low")
    await choose(host, account, "scripted", "low")
    await host.turn(host.engine())
    assert model.lists_asked == 1
    model.models = [*MODELS, {"id": "newcomer"}]
    assert await choose(host, account, "newcomer", "default") == ("newcomer", "default")
    assert model.lists_asked == 2


@pytest.mark.parametrize("kept", [b"", b"{", b"[" * 100_000, b"\xff", b'{"data": 7}'])
async def test_a_kept_list_that_cannot_be_read_is_asked_for_again(
    host: RecorderHost, model: ScriptedModel, kept: bytes
) -> None:
    host.lists[model.base_url] = kept
    model.models = MODELS
    account = Account(model.base_url, "token")
    assert await choose(host, account, "thinker", "low") == ("thinker", "low")


async def test_another_model_is_asked_and_what_was_learnt_of_the_first_is_forgotten(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.models = MODELS
    host.facts[model.base_url, "thinker"] = ["no_stream_options"]
    model.script(
        Reply(status=400, raw=b'{"error":{"message":"unknown parameter: reasoning_effort"}}')
    )
    engine = host.engine()
    engine.set_effort("low")
    await host.turn(engine)
    engine.set_model("thinker")
    engine.set_effort("low")
    await host.turn(engine, "t2")
    await engine.aclose()
    last = model.requests[-1]
    assert (last["model"], last["reasoning_effort"]) == ("thinker", "low")
    assert "stream_options" not in last
    notes = [one.text for one in host.records if isinstance(one, SessionNote)]
    assert notes == ["From here on another model works in this session: thinker."]
    learnt = [one for one in host.records if isinstance(one, Learned)]
    assert Learned(fact="no_stream_options") in learnt
    assert Learned(window=50_000) in learnt


async def test_what_the_client_holds_is_in_the_system_prompt_which_then_stays(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.settings = replace(host.settings, personalization=Personalization("frank"))
    begun: list[AnyRecord] = [ContextSet(context=Context(system_prompt="Speak of bread."))]
    engine = host.engine(records=begun)
    await host.turn(engine)
    engine.set_context(Context(system_prompt="Speak of tea."))
    await host.turn(engine, "t2")
    await host.turn(engine, "t3")
    await engine.aclose()
    systems = {request["messages"][0]["content"] for request in model.requests}
    (system,) = systems
    assert "# How you speak" in system
    assert system.endswith("## Instructions from the instance\n\nSpeak of bread.\n")
    (note,) = [one for one in host.records if isinstance(one, SessionNote)]
    assert note.turn_id == "t2"
    assert "Speak of tea." in model.requests[1]["messages"][-1]["content"]
    assert model.requests[2]["messages"][-1]["content"] == "go"
    # opened again, nothing is told twice
    again = host.engine(
        records=[*begun, *host.records, ContextSet(context=Context(system_prompt="Speak of tea."))]
    )
    await host.turn(again, "t4")
    await again.aclose()
    assert model.requests[3]["messages"][-1]["content"] == "go"


async def test_after_a_rewind_the_model_is_sent_what_stands(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("x\n")
    engine = host.engine()
    model.script(Reply(text="one"))
    await host.turn(engine, "t1", "first")
    host.records.append(TurnEnded(turn_id="t1", stop_reason="end_turn"))
    model.script(Reply(calls=[("read", {"path": "a"})]), Reply(text="two"))
    await host.turn(engine, "t2", "second")
    record = Rewound(turns=["t2"], results=1)
    host.records.append(record)
    engine.rewind(list(host.records))
    model.script(Reply(calls=[("read", {"path": "a"})]), Reply(text="three"))
    await host.turn(engine, "t3", "third")
    await engine.aclose()
    said = [one["content"] for one in model.requests[-1]["messages"][1:]]
    # the file is shown anew, for the model has not seen it, and its result has an id of its own
    assert said[:-1] == ["first", "one", "third", ""]
    assert "unchanged" not in said[-1]
    assert [one.result_id for one in host.results()] == ["#0001", "#0002"]
    assert sum(isinstance(one, SystemPrompt) for one in host.records) == 1
