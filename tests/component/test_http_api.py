"""The HTTP API as the device asks it: the wire, and what it makes of servers of every kind."""

import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lembasd.link import discovery
from lembasd.link.api import InstanceApi, LoginEnded, NotAllowed, NotThere
from lembasd.link.discovery import Redirected, Unreachable
from lembasd.protocol.errors import LembasError
from lembasd.protocol.http_api import (
    DeviceUse,
    InstanceInfo,
    MonthUse,
    Person,
    Personalization,
    Usage,
)
from tests.support.fake_instance import TOKEN, Answer, FakeInstance

Ask = Callable[[InstanceApi], Awaitable[Any]]

#: as link.md has it, with what is sent for 1.x clients alone
USAGE = b"""{"month": {"from": "2026-11-01", "tokens_in": 7, "tokens_out": 3, "cost_money": null,
 "cost_by_currency": {"EUR": 2.0, "USD": 0.75}, "cost": null}, "device": {"tokens_in": 1,
 "tokens_out": 2, "cost": null, "cost_money": null}, "currency": null, "admin": false,
 "unit": "money", "plan": null, "balance": null, "balance_money": null, "windows": []}"""

ASKS: dict[str, tuple[str, Ask]] = {
    "instance": ("/api/v1/instance", InstanceApi.about),
    "models": ("/v1/models", InstanceApi.models),
    "usage": ("/v1/usage", InstanceApi.usage),
    "personalization": ("/v1/me/personalization", InstanceApi.personalization),
}
every_answer = pytest.mark.parametrize(("path", "ask"), ASKS.values(), ids=ASKS.keys())


async def asked(instance: FakeInstance, ask: Ask, token: str = TOKEN) -> Any:
    async with discovery.client(None) as http:
        return await ask(InstanceApi(http, instance.url, token))


@pytest.mark.spec("GET /api/v1/instance")
async def test_the_instance_says_what_it_is_and_what_the_token_may_do() -> None:
    async with FakeInstance() as instance:
        instance.instead["/api/v1/instance"] = Answer(
            200,
            b'{"service":"lembas","version":"3.5.0","name":"Home","connection":"home","account":'
            b'{"email":"ada@example.org","name":"Ada"},"scope":"models memory link",'
            b'"default_model":"qwen","services":{"stt":true},"new":[1]}',
        )
        assert await asked(instance, InstanceApi.about) == InstanceInfo(
            service="lembas",
            version="3.5.0",
            name="Home",
            connection="home",
            account=Person("ada@example.org", "Ada"),
            scope="models memory link",
            default_model="qwen",
        )
        seen = await instance.asked("/api/v1/instance")
        assert (seen.method, seen.headers["authorization"]) == ("GET", f"Bearer {TOKEN}")


@pytest.mark.spec("GET /v1/usage")
async def test_the_use_of_a_month_is_read_without_what_1_x_clients_are_sent() -> None:
    async with FakeInstance() as instance:
        instance.instead["/v1/usage"] = Answer(200, USAGE)
        assert await asked(instance, InstanceApi.usage) == Usage(
            month=MonthUse(
                since="2026-11-01",
                tokens_in=7,
                tokens_out=3,
                cost_money=None,
                cost_by_currency={"EUR": 2.0, "USD": 0.75},
            ),
            device=DeviceUse(1, 2),
            currency=None,
            admin=False,
        )


@pytest.mark.parametrize("ask", [InstanceApi.usage, InstanceApi.personalization])
@pytest.mark.spec("GET /v1/usage: 404 shows nothing")
async def test_an_instance_without_it_has_none(ask: Ask) -> None:
    async with FakeInstance() as instance:
        assert await asked(instance, ask) is None


@pytest.mark.parametrize("ask", [InstanceApi.models, InstanceApi.about])
async def test_an_instance_without_what_each_has_is_an_older_one(ask: Ask) -> None:
    async with FakeInstance() as instance:
        instance.models = instance.about = None
        with pytest.raises(NotThere, match="update it to LLeMbas"):
            await asked(instance, ask)


@pytest.mark.spec("PUT /v1/me/personalization: one field")
async def test_a_change_of_the_personalization_is_one_field_and_enabled() -> None:
    async with FakeInstance() as instance:
        instance.personalization = {"enabled": False, "available": True, "instructions": "x"}
        assert await asked(instance, InstanceApi.personalization) == Personalization(
            enabled=False, available=True, instructions="x"
        )
        await asked(instance, lambda api: api.personalize("personality", "friendly"))
        put = instance.requests[-1]
        assert (put.method, put.path) == ("PUT", "/v1/me/personalization")
        assert put.body == b'{"personality":"friendly","enabled":true}'
        assert put.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer.of({"detail": "personalization is off"}, 403), "refuses this: personalization is"),
        (Answer(403, b"<html>"), "refuses this: not allowed"),
        (Answer.of({"detail": "too long"}, 422), "does not take this: too long"),
        (Answer.of({"detail": [{"msg": "be a text"}]}, 422), "does not take this: be a text"),
        (Answer(422, b""), "does not take this: give another value"),
    ],
)
@pytest.mark.spec("PUT /v1/me/personalization: 403 and 422")
async def test_a_change_that_is_refused_has_the_servers_reason(answer: Answer, said: str) -> None:
    async with FakeInstance() as instance:
        instance.instead["/v1/me/personalization"] = answer
        with pytest.raises(NotAllowed, match=said):
            await asked(instance, lambda api: api.personalize("instructions", "x"))


@every_answer
@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer(200, b"<!doctype html><p>log in"), Unreachable, "answers with something else than"),
        (Answer(200, b""), Unreachable, "answers with something else than was asked for; is it a"),
        (Answer(200, b"\xff\xfe"), Unreachable, "answers with something else than was asked for"),
        (Answer(200, b"[" * 50_000), Unreachable, "answers with something else than was asked for"),
        (Answer(200, b"{" + b" " * 5_000_000), Unreachable, "answers with too much; is it a"),
        (Answer(500, b"<html>oh"), Unreachable, "answers 500; try again later"),
        (Answer(429, headers={"Retry-After": "60"}), Unreachable, "answers 429; try again in 60 s"),
        (Answer(418), Unreachable, "answers 418; try again later"),
        (Answer.of({"detail": "busy"}, 503), Unreachable, "answers 503 (busy); try again later"),
        (
            Answer(307, headers={"Location": "https://sso.example.org/x?token=1"}),
            Redirected,
            "sends on to https://sso.example.org; if that is your server",
        ),
        (
            Answer(200, zlib.compress(b"{}" * 9), {"Content-Encoding": "deflate, deflate"}),
            Unreachable,
            "packs its answer, which was not asked for; ask who runs it",
        ),
        (b"SSH-2.0-OpenSSH_9\r\n", Unreachable, "gives no whole answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", Unreachable, "gives no whole answer"),
    ],
)
async def test_an_odd_server_is_one_clear_sentence(
    path: str, ask: Ask, answer: Answer | bytes, kind: type[LembasError], said: str
) -> None:
    async with FakeInstance() as instance:
        instance.instead[path] = answer
        with pytest.raises(kind) as raised:
            await asked(instance, ask)
    sentence = str(raised.value)
    assert said in sentence
    assert sentence.isprintable()
    assert TOKEN not in sentence
    assert "token=1" not in sentence


@every_answer
@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'"x"',
        b"7",
        b"null",
        b'{"month": 7, "scope": 7, "enabled": "yes", "data": 7}',
        b'{"month": {"cost_by_currency": {"EUR": "2"}}, "scope": [], "available": 1, "data": null}',
    ],
)
async def test_a_value_of_another_type_is_no_answer(path: str, ask: Ask, body: bytes) -> None:
    async with FakeInstance() as instance:
        instance.instead[path] = Answer(200, body)
        with pytest.raises(Unreachable, match=r"is it a LLeMbas server\?"):
            await asked(instance, ask)


@every_answer
async def test_a_token_that_is_not_accepted_any_more_is_said_with_what_to_do(
    path: str, ask: Ask
) -> None:
    async with FakeInstance() as instance:
        with pytest.raises(LoginEnded) as raised:
            await asked(instance, ask, "another-token")
    assert str(raised.value) == (
        f"{instance.url} does not accept this login any more; log in again with `lembas login`"
    )
