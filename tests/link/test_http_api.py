"""link.md, "The HTTP API the CLI uses": what the device asks, as text, and what it makes of the answers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.daemon import Install
from tests.support.fake_instance import TOKEN, Answer, FakeInstance
from tests.support.linked_hub import LinkedHub

MODELS = [
    {"id": "x/plain"},
    {"id": "x/chat", "kind": "chat"},
    {"id": "x/words", "kind": "embedding"},
    {"id": "x/more", "kind": "embedding"},
    *({"id": f"x/{kind}", "kind": kind} for kind in ("stt", "tts", "image", "video")),
]
ME = "/v1/me/personalization"


class Person:
    def __init__(self, install: Install, instance: FakeInstance) -> None:
        self.install = install
        self.instance = instance

    async def lembas(self, *args: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        """Exit code, output and complaint."""
        done = await self.install.run(*args, stdin=stdin)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    async def said(self, *args: str, stdin: bytes | None = None) -> str:
        code, out, err = await self.lembas(*args, stdin=stdin)
        assert (code, err) == (0, "")
        return out

    async def log_in(self, *more: str) -> tuple[int, str, str]:
        login = ("login", "--server", self.instance.url, "--token-stdin", "--json", *more)
        return await self.lembas(*login, stdin=TOKEN.encode())


@pytest.fixture
async def person(short_tmp: Path) -> AsyncIterator[Person]:
    async with FakeInstance() as instance, Install(short_tmp) as install:
        instance.models = MODELS
        assert instance.about is not None
        instance.about["default_model"] = "x/chat"
        yield Person(install, instance)


@pytest.mark.spec(
    "login --token-stdin",
    "GET /api/v1/instance",
    "GET /v1/models: kinds",
    "the embedding setting at login",
    "the token in the Authorization header",
)
async def test_a_login_proves_its_token_and_takes_what_it_needs(person: Person) -> None:
    instance = person.instance
    code, out, err = await person.log_in()
    assert (code, err) == (0, "")
    assert out == (
        f'{{"event":"done","fresh":true,"connection":"fake","base_url":"{instance.url}","version":"2.0.1",'
        '"models":["x/plain","x/chat"],"changes":["server","connection","embedding"]}\n'
    )
    assert [(one.method, one.path) for one in instance.requests] == [
        ("GET", "/.well-known/lembas.json"),
        ("GET", "/api/v1/instance"),
        ("GET", "/v1/models"),
    ]
    # the token is the header's, and is sent to nobody who did not prove to speak protocol 3
    assert [one.headers.get("authorization") for one in instance.requests] == [
        None,
        f"Bearer {TOKEN}",
        f"Bearer {TOKEN}",
    ]
    assert all(TOKEN not in one.path and not one.body for one in instance.requests)
    assert "embedding: fake/x/words\n" in person.install.paths.config_file.read_text()
    # it never replaces one that is set
    config = person.install.paths.config_file
    config.write_text(config.read_text().replace("fake/x/words", "x/more"))
    again = msgspec.json.decode((await person.log_in())[1])
    assert (again["fresh"], again["changes"]) == (True, [])
    assert "embedding: x/more\n" in config.read_text()
    models = await person.said("models")
    assert sorted(models.replace("*", " ").split()) == ["x/chat", "x/plain"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"discovery": {"version": "1.9", "protocols": [1, 2]}},
            (
                "{url} runs LLeMbas 1.9, which speaks link protocol 1 and 2; this LLeMbas CLI needs a LLeMbas 2.0 "
                "server (protocol 3) — update the server, or use LLeMbas CLI 1.x with it"
            ),
        ),
        ({"tokens": set()}, "does not accept this token"),
        ({"about": None}, "is an older server; update it to LLeMbas 2.0"),
        ({"about": {"name": "x"}}, "is an older server; update it to LLeMbas 2.0"),
        ({"about": {"scope": "models memory"}}, "this token may do models memory but not link"),
    ],
)
@pytest.mark.spec(
    "login --token-stdin: refused before anything is written",
    "GET /api/v1/instance: scope must have link",
)
async def test_a_login_that_is_refused_writes_nothing(
    person: Person, change: dict[str, Any], message: str
) -> None:
    for name, value in change.items():
        setattr(person.instance, name, value)
    code, out, err = await person.log_in()
    (line,) = out.splitlines()
    error = msgspec.json.decode(line)
    assert (code, set(error), error["event"]) == (4, {"event", "message"}, "error")
    assert message.format(url=person.instance.url) in error["message"]
    assert TOKEN not in out + err
    assert not person.install.paths.credentials_file.exists()
    assert not person.install.paths.config_file.exists()


@pytest.mark.spec(
    "GET /v1/usage",
    "GET /v1/usage: currencies are never summed",
    "GET /v1/usage: 404 shows nothing",
)
async def test_the_use_of_a_month_has_each_currency_by_itself(person: Person) -> None:
    await person.log_in()

    async def usage(costs: dict[str, float], money: float | None) -> str:
        person.instance.usage = {
            "month": {
                "from": "2026-11-01",
                "tokens_in": 1000,
                "tokens_out": 200,
                "cost": None,
                "cost_money": money,
                "cost_by_currency": costs,
            },
            "device": {"tokens_in": 10, "tokens_out": 2, "cost": None, "cost_money": None},
            "currency": "EUR",
            "admin": False,
            "unit": "money",
            "plan": None,
            "balance": None,
            "balance_money": None,
            "windows": [],
        }
        return await person.said("usage")

    both = await usage({"EUR": 2.0, "USD": 0.75}, None)
    assert "€2.00 · $0.75" in both
    assert "2.75" not in both
    assert "€2.00\n" in await usage({"EUR": 2.0}, 2.0)
    assert "cost" not in await usage({}, None)
    asked = [one for one in person.instance.requests if one.path == "/v1/usage"]
    assert {(one.method, one.headers["authorization"]) for one in asked} == {
        ("GET", f"Bearer {TOKEN}")
    }
    person.instance.usage = None
    code, out, _ = await person.lembas("usage", "--json")
    assert not any(character.isdigit() for character in out), (code, out)


@pytest.mark.spec(
    "GET /v1/me/personalization",
    "PUT /v1/me/personalization: one field",
    "PUT /v1/me/personalization: 403 and 422",
)
async def test_the_accounts_texts_count_and_a_change_puts_the_one_field_alone(
    person: Person,
) -> None:
    instance = person.instance
    await person.log_in()
    instance.personalization = {
        "enabled": True,
        "available": True,
        "personality": "brief",
        "personality_custom": "",
        "instructions": "Call me Sam.",
    }
    assert await person.said("config", "get", "instructions") == "Call me Sam.\n"
    await person.said("config", "set", "instructions", "Call me Ann.")
    put = instance.requests[-1]
    assert (put.method, put.path, put.headers["authorization"]) == ("PUT", ME, f"Bearer {TOKEN}")
    assert put.body.decode() == '{"instructions":"Call me Ann.","enabled":true}'
    # nothing of it is kept here
    assert "Ann" not in person.install.paths.config_file.read_text()
    for status, body, message in (
        (403, {"detail": "personalization is off for this account"}, "is off for this account"),
        (403, None, "not allowed"),
        (422, {"detail": "instructions is no string"}, "instructions is no string"),
    ):
        refused = Answer(status, b"") if body is None else Answer.of(body, status)
        instance.instead[ME] = Answer.of(instance.personalization)
        await person.said("config", "get", "instructions")
        instance.instead[ME] = refused
        code, _, err = await person.lembas("config", "set", "instructions", "x")
        assert code != 0
        assert message in err
    del instance.instead[ME]
    instance.personalization["enabled"] = False
    assert await person.said("config", "get", "instructions") == "null\n"
    assert await person.said("logout") == "Logged out.\n"
    await person.said("config", "set", "instructions", "My own.")
    assert await person.said("config", "get", "instructions") == "My own.\n"


@pytest.mark.spec("the token in the Authorization header")
async def test_the_link_and_the_model_are_asked_with_the_devices_token(hub: LinkedHub) -> None:
    await hub.turn(await hub.new(), "t1")
    for path in ("/api/devices/link", "/v1/chat/completions", "/v1/models"):
        asked = [one for one in hub.instance.requests if one.path == path]
        assert {one.headers["authorization"] for one in asked} == {f"Bearer {TOKEN}"}, path


@pytest.mark.spec("personalization in sessions")
async def test_a_client_that_says_null_has_the_accounts_personalization_used(
    own_hub: LinkedHub,
) -> None:
    hub = own_hub
    hub.instance.personalization = {
        "enabled": True,
        "available": True,
        "personality": "brief",
        "personality_custom": "",
        "instructions": "Call me Sam.",
    }
    session = await hub.new(lembas={"personalization": None})
    # opening a session asks for nothing: it is asked for with the first turn
    assert hub.instance.asked_so_far(ME) == 0
    for turn in ("t1", "t2"):
        await hub.turn(session, turn)
    asked = await hub.instance.asked(ME)
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert hub.instance.asked_so_far(ME) == 1
    system = hub.messages()[0]["content"]
    assert "# How you speak\n\nAnswer in as few words" in system
    assert "# What the person wants of you\n\nCall me Sam." in system
