"""Asking a model that is away, refuses, cuts its replies or answers strangely."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from lembasd.engine.api import TurnOutcome
from lembasd.protocol import events
from lembasd.protocol.control import Account, Settings
from lembasd.protocol.errors import INTERNAL_ERROR
from lembasd.store.records import Assistant, TurnError
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel, event

ENDED = TurnOutcome(stop_reason="end_turn")


async def outcome(host: RecorderHost) -> TurnOutcome:
    engine = host.engine()
    try:
        return await host.turn(engine)
    finally:
        await engine.aclose()


def failed(message: str, status: int | None = None) -> TurnOutcome:
    data = {"reason": "model"} if status is None else {"reason": "model", "status": status}
    return TurnOutcome(error=TurnError(INTERNAL_ERROR, message, data))


def notices(host: RecorderHost) -> list[str]:
    return [one.text for one in host.events if isinstance(one, events.Notice)]


def refusal(status: int, message: str, **headers: str) -> Reply:
    raw = msgspec.json.encode({"error": {"message": message}})
    return Reply(status=status, raw=raw, headers={"Content-Type": "application/json", **headers})


async def test_a_device_that_is_not_logged_in_says_what_to_do(host: RecorderHost) -> None:
    host.settings = Settings()
    says = "this device is not logged in to an instance; run `lembas login`"
    assert await outcome(host) == failed(says)
    assert [one for one in host.events if isinstance(one, events.Error)] == [
        events.Error(message=says, reason="model", retryable=False)
    ]


async def test_a_busy_server_is_asked_again_and_the_person_is_told(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(refusal(503, "loading"), Reply(text="here"))
    assert await outcome(host) == ENDED
    [notice] = notices(host)
    assert notice.startswith("the model's server answers 503 (loading); asking again in ")
    assert len(model.requests) == 2


async def test_a_server_says_how_long_to_wait(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(refusal(429, "slow down", **{"Retry-After": "60"}))
    engine = host.engine()
    running = asyncio.create_task(host.turn(engine))
    await host.until(events.Notice)
    engine.cancel()
    assert await running == TurnOutcome(stop_reason="cancelled")
    await engine.aclose()
    assert notices(host)[0].rpartition(" in ")[2].startswith("60.")


async def test_a_request_that_is_refused_is_not_asked_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(refusal(400, "too long"))
    assert await outcome(host) == failed(
        "the model's server refuses the request with 400 (too long)", 400
    )
    assert len(model.requests) == 1


async def test_a_redirect_is_not_followed(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(Reply(status=307, raw=b"", headers={"Location": "http://127.0.0.1:1/"}))
    assert await outcome(host) == failed("the model's server refuses the request with 307", 307)


async def test_a_reply_that_is_cut_is_withdrawn_and_asked_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(text="half", drop=True), Reply(text="whole"))
    assert await outcome(host) == ENDED
    first = await host.until(events.Text)
    kept = await host.until(Assistant)
    assert [one for one in host.events if isinstance(one, events.Retract)] == [
        events.Retract(messageId=first.messageId)
    ]
    assert (kept.text, kept.message_id == first.messageId) == ("whole", False)


async def test_an_error_in_the_stream_is_asked_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    raw = event({"content": "ha"}) + b'data: {"error": {"message": "out of memory"}}\n\n'
    model.script(Reply(raw=raw), Reply(text="whole"))
    assert await outcome(host) == ENDED
    assert notices(host)[0].startswith("the model's server says: out of memory; asking again")


async def test_a_reply_that_was_not_streamed_counts(
    host: RecorderHost, model: ScriptedModel
) -> None:
    raw = msgspec.json.encode(
        {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    )
    model.script(Reply(raw=raw, headers={"Content-Type": "application/json"}))
    assert await outcome(host) == ENDED
    assert (await host.until(Assistant)).text == "whole"


async def test_a_refused_token_is_replaced_once(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(refusal(401, "expired"), Reply(text="here"))
    host.newer = Account(base_url=model.base_url, token="second")
    assert await outcome(host) == ENDED
    assert model.authorizations == ["Bearer first", "Bearer second"]
    assert notices(host) == []


@pytest.mark.parametrize("newer", ["none", "refused too"])
async def test_a_token_that_stays_refused_says_to_log_in(
    host: RecorderHost, model: ScriptedModel, newer: str
) -> None:
    model.script(refusal(401, "expired"), refusal(401, "expired"))
    if newer != "none":
        host.newer = Account(base_url=model.base_url, token="second")
    assert await outcome(host) == failed(
        "the instance does not accept this device's login; run `lembas login` again", 401
    )


async def test_what_was_meant_for_one_instance_is_not_sent_to_another(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(refusal(401, "expired"))
    host.newer = Account(base_url="http://127.0.0.1:1", token="second")
    assert await outcome(host) == failed(
        "this device is logged in to another instance now; send it again"
    )


async def test_a_server_that_is_away_is_said_and_a_cancel_ends_the_wait(
    host: RecorderHost,
) -> None:
    account = host.settings.account
    assert account is not None
    host.settings = Settings(account=replace(account, base_url="http://127.0.0.1:1"))
    engine = host.engine()
    running = asyncio.create_task(host.turn(engine))
    await host.until(events.Notice)
    engine.cancel()
    assert await running == TurnOutcome(stop_reason="cancelled")
    await engine.aclose()
    assert notices(host)[0].startswith("the model's server cannot be reached (")
