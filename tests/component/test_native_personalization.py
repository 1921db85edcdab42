"""The account's personalization in a session: whose counts, and that it stays."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from lembasd.engine.native import model_client
from lembasd.harness.loader import PERSONALITIES
from lembasd.protocol.context import Context, Personalization
from lembasd.protocol.control import Settings
from lembasd.store.records import AccountPersonalization, AnyRecord, ContextSet, SessionNote
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import ScriptedModel

LOCAL = Personalization("frank", None, "Call me Pip.")
ACCOUNT = {
    "enabled": True,
    "available": True,
    "personality": "brief",
    "personality_custom": "",
    "instructions": "Call me Sam.",
}


def system(model: ScriptedModel) -> str:
    """The system prompt of the last request."""
    return str(model.requests[-1]["messages"][0]["content"])


def parts(text: str) -> list[str]:
    """What of the two personalizations is in it."""
    known = {
        "brief": PERSONALITIES["brief"],
        "frank": PERSONALITIES["frank"],
        "Sam": "Call me Sam.",
        "Pip": "Call me Pip.",
    }
    return [name for name, piece in known.items() if piece in text]


@pytest.fixture
def host(host: RecorderHost) -> RecorderHost:
    host.settings = replace(host.settings, personalization=LOCAL)
    return host


async def asked(host: RecorderHost, model: ScriptedModel) -> list[str]:
    engine = host.engine()
    await host.turn(engine)
    await engine.aclose()
    return parts(system(model))


@pytest.mark.spec("personalization in sessions")
@pytest.mark.parametrize(
    ("account", "counts"),
    [
        (ACCOUNT, ["brief", "Sam"]),
        ({**ACCOUNT, "enabled": False}, []),
        ({**ACCOUNT, "available": False}, ["frank", "Pip"]),
        ({**ACCOUNT, "personality": "of a later build"}, ["Sam"]),
        ({**ACCOUNT, "personality": None, "instructions": None}, []),
        (None, ["frank", "Pip"]),
    ],
    ids=["enabled", "disabled", "unavailable", "unknown preset", "empty", "404"],
)
async def test_the_accounts_counts_in_place_of_the_devices_where_it_is_available(
    host: RecorderHost, model: ScriptedModel, account: dict[str, Any] | None, counts: list[str]
) -> None:
    model.personalization = b"" if account is None else msgspec.json.encode(account)
    with capture_logs() as logs:
        assert await asked(host, model) == counts
    assert logs == []


async def test_logged_out_nobody_is_asked(host: RecorderHost, model: ScriptedModel) -> None:
    model.personalization = msgspec.json.encode(ACCOUNT)
    host.settings = Settings(personalization=LOCAL)
    engine = host.engine()
    outcome = await host.turn(engine)
    await engine.aclose()
    assert outcome.error is not None
    assert (model.personalization_asked, model.requests) == (0, [])


@pytest.mark.parametrize("answer", [b"<html>", b'{"enabled": 7}', b'{"instructions": "\xff"}'])
async def test_an_answer_that_cannot_be_read_leaves_the_devices_own_and_a_line_in_the_log(
    host: RecorderHost, model: ScriptedModel, answer: bytes
) -> None:
    model.personalization = answer
    with capture_logs() as logs:
        assert await asked(host, model) == ["frank", "Pip"]
    assert [(one["event"], one["log_level"], one["instance"]) for one in logs] == [
        ("no_personalization", "warning", model.base_url)
    ]


@pytest.mark.parametrize("status", [302, 401, 403, 500])
async def test_an_instance_that_refuses_leaves_the_devices_own_and_says_why_in_the_log(
    host: RecorderHost, model: ScriptedModel, status: int
) -> None:
    model.personalization = msgspec.json.encode(ACCOUNT)
    model.personalization_status = status
    with capture_logs() as logs:
        assert await asked(host, model) == ["frank", "Pip"]
    assert [one["error"] for one in logs] == [f"it answers {status}"]


async def test_an_instance_that_does_not_answer_is_waited_for_a_moment_alone(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.personalization = None
    with capture_logs() as logs:
        async with asyncio.timeout(model_client.PERSONALIZATION_TIMEOUT_S + 10):
            assert await asked(host, model) == ["frank", "Pip"]
    assert [one["error"] for one in logs] == ["TimeoutError"]


async def test_a_cancel_does_not_wait_for_the_instance(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.personalization = None
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await model.personalization_came.wait()
    begun = asyncio.get_running_loop().time()
    engine.cancel()
    assert (await turn).stop_reason == "cancelled"
    assert asyncio.get_running_loop().time() - begun < model_client.PERSONALIZATION_TIMEOUT_S
    assert model.requests == []
    await engine.aclose()


async def test_it_is_asked_for_once_and_stays_for_the_session(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.personalization = msgspec.json.encode(ACCOUNT)
    engine = host.engine()
    await host.turn(engine)
    model.personalization = msgspec.json.encode({**ACCOUNT, "instructions": "Call me Rose."})
    host.settings = replace(host.settings, personalization=Personalization("formal"))
    await host.turn(engine, "t2")
    await engine.aclose()
    again = host.engine(records=list(host.records))
    await host.turn(again, "t3")
    await again.aclose()
    assert model.personalization_asked == 1
    assert len({request["messages"][0]["content"] for request in model.requests}) == 1
    assert not any(isinstance(one, SessionNote) for one in host.records)
    kept = [one for one in host.records if isinstance(one, AccountPersonalization)]
    assert kept == [
        AccountPersonalization(personalization=Personalization("brief", None, "Call me Sam."))
    ]


async def test_what_the_client_says_counts_before_the_accounts(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.personalization = msgspec.json.encode(ACCOUNT)
    said = Context(personalization=Personalization(instructions="Call me Pip."))
    begun: list[AnyRecord] = [ContextSet(context=said)]
    engine = host.engine(records=begun)
    await host.turn(engine)
    first = (parts(system(model)), model.personalization_asked)
    # null from then on: the device's own, which is the account's
    engine.set_context(Context())
    await host.turn(engine, "t2")
    await engine.aclose()
    assert first == (["Pip"], 0)
    assert parts(str(model.requests[-1]["messages"][-1]["content"])) == ["brief", "Sam"]
