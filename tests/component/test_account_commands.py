"""`lembas models`, `usage` and the account's settings in `lembas config`, against a scripted instance."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lembasd.device import config, credentials
from lembasd.device.credentials import Credentials
from tests.support.command_line import CommandLine, Done
from tests.support.fake_instance import TOKEN, Answer, FakeInstance

COMMANDS = [("models",), ("usage",), ("whoami",), ("config", "get", "personality")]


class Person:
    """Types commands, logged in to the instance, which runs in this loop."""

    def __init__(self, run: CommandLine, instance: FakeInstance) -> None:
        self.paths = run.paths
        self.instance = instance
        self._run = run

    async def lembas(self, *args: str) -> Done:
        return await asyncio.to_thread(self._run.lembas, *args)

    def log_in(self, server: str = "") -> None:
        self.paths.make()
        login = Credentials(server or self.instance.url, TOKEN, "fake", default_model="old")
        credentials.store(self.paths.credentials_file, login)

    def config(self) -> str:
        file = self.paths.config_file
        return file.read_text() if file.exists() else ""


@pytest.fixture
async def person(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Person]:
    async with FakeInstance() as instance:
        one = Person(CommandLine(short_tmp / "h", monkeypatch, capsys), instance)
        one.log_in()
        yield one


# ── models ──────────────────────────────────────────────────────────────────────────────────────


MODELS: list[Any] = [
    {"id": "voice", "kind": "stt"},
    {"id": "embed", "kind": "embedding"},
    {"id": "image", "kind": "image"},
    {
        "id": "qwen3-coder",
        "kind": "chat",
        "name": "Qwen",
        "context": 262144,
        "vision": True,
        "efforts": ["low", "high"],
        "price": {"currency": "EUR", "input": 0.2, "output": 1.5},
    },
    {"id": "demo", "tools": False},
]


@pytest.mark.spec("GET /v1/models: kinds")
async def test_models_are_those_for_chats_and_the_default_is_marked(person: Person) -> None:
    person.instance.models = MODELS
    assert await person.lembas("models") == Done(
        0,
        "  qwen3-coder  Qwen; 262k tokens; effort low, high; sees images; "
        "€0.20 in, €1.50 out a million tokens\n"
        "* demo         takes no tools\n",
        "",
    )
    told = (await person.lembas("models", "--json")).value
    assert told["default"] == "demo"
    assert [one["id"] for one in told["models"]] == ["qwen3-coder", "demo"]
    assert told["models"][0]["context"] == 262144


async def test_the_model_of_the_config_is_the_default_in_its_older_form_too(person: Person) -> None:
    person.instance.models = MODELS
    await person.lembas("config", "set", "model", "fake/qwen3-coder")
    done = await person.lembas("models")
    assert done.out.startswith("* qwen3-coder ")
    assert done.err == ""


async def test_a_default_that_is_not_served_is_said(person: Person) -> None:
    await person.lembas("config", "set", "model", "gone")
    done = await person.lembas("models")
    assert (done.code, done.out, done.err) == (
        0,
        "  demo\n",
        (
            "the default model of config.yaml (gone) is not among them; "
            "choose one with `lembas config set model NAME`\n"
        ),
    )


async def test_an_instance_without_models_is_said(person: Person) -> None:
    person.instance.models = [{"id": "embed", "kind": "embedding"}]
    person.instance.about = {"scope": "link"}
    done = await person.lembas("models")
    assert done == Done(0, "this instance has no model for chats; add one there\n", "")


async def test_what_a_server_writes_of_a_model_moves_no_cursor(person: Person) -> None:
    person.instance.models = [
        {"id": "a\x1b[2J", "name": "b\r\n\x07", "efforts": ["\x1b]0;x\x07"], "context": 1}
    ]
    done = await person.lembas("models")
    assert done.code == 0
    assert all(one.isprintable() for one in (done.out + done.err).replace("\n", ""))


# ── usage ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("GET /v1/usage: currencies are never summed")
async def test_the_months_use_has_each_currency_by_itself(person: Person) -> None:
    person.instance.usage = {
        "month": {
            "from": "2026-11-01T00:00:00Z",
            "tokens_in": 1234567,
            "tokens_out": 8,
            "cost_money": None,
            "cost_by_currency": {"USD": 0.75, "EUR": 2.0},
        },
        "device": {"tokens_in": 5, "tokens_out": 0},
        "currency": None,
        "admin": True,
        "unit": "money",
    }
    assert await person.lembas("usage") == Done(
        0,
        "this month   1,234,567 tokens in, 8 out since 2026-11-01\n"
        "this device  5 tokens in, 0 out\n"
        "cost         €2.00 · $0.75\n",
        "",
    )
    told = (await person.lembas("usage", "--json")).value
    assert told["month"]["cost_by_currency"] == {"EUR": 2.0, "USD": 0.75}


async def test_a_month_without_prices_shows_no_cost(person: Person) -> None:
    person.instance.usage = {"month": {}}
    assert (await person.lembas("usage")).out == (
        "this month   0 tokens in, 0 out\nthis device  0 tokens in, 0 out\n"
    )


async def test_an_instance_that_does_not_count_shows_no_figures(person: Person) -> None:
    assert await person.lembas("usage") == Done(0, "this instance does not count use\n", "")
    assert (await person.lembas("usage", "--json")).value is None


# ── personalization ─────────────────────────────────────────────────────────────────────────────


PRESETS = (
    "choose brief, formal, frank, friendly, playful, teacher or custom "
    "with `lembas config set personality NAME`"
)
ACCOUNT = {
    "enabled": True,
    "available": True,
    "personality": "friendly",
    "personality_custom": "",
    "instructions": None,
}


@pytest.mark.spec("GET /v1/me/personalization")
async def test_a_setting_of_the_accounts_is_read_and_written_there(person: Person) -> None:
    person.instance.personalization = ACCOUNT
    assert (await person.lembas("config", "get", "personality")).out == "friendly\n"
    assert (await person.lembas("config", "get", "instructions")).out == "null\n"
    done = await person.lembas("config", "set", "instructions", "Be brief: yes")
    assert done == Done(
        0, f"set for your account at {person.instance.url}; config.yaml stays as it is\n", ""
    )
    put = person.instance.requests[-1]
    assert (put.method, put.body) == ("PUT", b'{"instructions":"Be brief: yes","enabled":true}')
    await person.lembas("config", "set", "personality", "null")
    assert person.instance.requests[-1].body == b'{"personality":"","enabled":true}'
    assert person.config() == ""


async def test_a_text_of_the_accounts_has_its_lines_and_moves_no_cursor(person: Person) -> None:
    person.instance.personalization = {**ACCOUNT, "instructions": "one\n\ttwo\x1b[2J\r"}
    done = await person.lembas("config", "get", "instructions")
    assert done == Done(0, "one\n\ttwo [2J \n", "")


@pytest.mark.parametrize("logged_in", [True, False])
async def test_a_preset_that_is_not_known_is_none_and_named(
    person: Person, *, logged_in: bool
) -> None:
    if logged_in:
        person.instance.personalization = {**ACCOUNT, "personality": "grumpy"}
    else:
        await person.lembas("logout")
        await person.lembas("config", "set", "personality", "grumpy")
    assert await person.lembas("config", "get", "personality") == Done(
        0, "null\n", f"this build knows no personality 'grumpy'; {PRESETS}\n"
    )


@pytest.mark.parametrize("logged_in", [True, False])
async def test_a_preset_that_is_set_and_not_known_is_named(
    person: Person, *, logged_in: bool
) -> None:
    person.instance.personalization = ACCOUNT
    if not logged_in:
        await person.lembas("logout")
    done = await person.lembas("config", "set", "personality", "grumpy")
    # an instance may know more of them than this build does
    assert (done.code, done.err) == (0, f"this build knows no personality 'grumpy'; {PRESETS}\n")
    for known in ("frank", "custom", "null"):
        assert (await person.lembas("config", "set", "personality", known)).err == ""


async def test_an_account_whose_personalization_is_off_has_none(person: Person) -> None:
    person.instance.personalization = {**ACCOUNT, "enabled": False}
    assert (await person.lembas("config", "get", "personality")).out == "null\n"


@pytest.mark.parametrize("account", [None, {**ACCOUNT, "available": False}])
async def test_without_an_account_that_has_it_the_devices_own_counts(
    person: Person, account: dict[str, Any] | None
) -> None:
    person.instance.personalization = account
    assert await person.lembas("config", "set", "personality", "frank") == Done(0, "", "")
    assert person.config() == "personality: frank\n"
    assert (await person.lembas("config", "get", "personality")).out == "frank\n"
    assert all(one.method == "GET" for one in person.instance.requests)


async def test_logged_out_the_devices_own_counts(person: Person) -> None:
    person.instance.personalization = ACCOUNT
    await person.lembas("logout")
    await person.lembas("config", "set", "instructions", "yes")
    assert config.load(person.paths.config_file).config.instructions == "yes"
    assert (await person.lembas("config", "get", "instructions")).out == "yes\n"
    assert person.instance.requests == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Be brief: yes", "Be brief: yes"),
        ("one: [", "one: ["),
        ("2026-11-30", "2026-11-30"),
        ("true", "true"),
        ("'quoted'", "quoted"),
        ("null", None),
        ("", None),
    ],
)
async def test_a_text_is_a_text_whatever_yaml_would_make_of_it(
    person: Person, written: str, read: str | None
) -> None:
    await person.lembas("logout")
    await person.lembas("config", "set", "instructions", "before")
    assert (await person.lembas("config", "set", "instructions", written)).code == 0
    assert config.load(person.paths.config_file).config.instructions == read


async def test_what_is_no_value_of_another_kind_is_said(person: Person) -> None:
    done = await person.lembas("config", "set", "remote.enabled", "a: [b")
    assert done == Done(2, "", "'a: [b' is no value; write it as in config.yaml\n")


async def test_a_change_that_the_account_refuses_changes_nothing(person: Person) -> None:
    person.instance.instead["/v1/me/personalization"] = Answer.of({"detail": "not here"}, 403)
    done = await person.lembas("config", "set", "personality", "x")
    assert (done.code, done.err) == (4, f"{person.instance.url} refuses this: not here\n")
    assert person.config() == ""


async def test_a_list_waits_for_no_network_and_says_whose_texts_may_count(person: Person) -> None:
    done = await person.lembas("config", "list", "--json")
    assert done.value["personality"] is None
    assert done.err == (
        "while you are logged in your account may have its own personality, personality_custom, "
        "instructions; see `lembas config get personality`\n"
    )
    assert person.instance.requests == []


# ── any of them ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_login_that_ended_is_said(person: Person, command: tuple[str, ...]) -> None:
    person.instance.tokens.clear()
    done = await person.lembas(*command)
    assert (done.code, done.out) == (4, "")
    assert "does not accept this login any more; log in again with `lembas login`" in done.err


@pytest.mark.parametrize("command", COMMANDS)
async def test_an_instance_that_is_away_is_one_sentence(
    person: Person, command: tuple[str, ...]
) -> None:
    await person.instance.go_away()
    done = await person.lembas(*command)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "cannot be reached" in done.err


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_token_is_not_sent_to_another_server_than_the_one_that_gave_it(
    person: Person, command: tuple[str, ...]
) -> None:
    async with FakeInstance() as other:
        await person.lembas("config", "set", "server", other.url)
        done = await person.lembas(*command)
        assert (done.code, done.out) == (1, "")
        assert f"config.yaml names {other.url}, the login is for {person.instance.url}" in done.err
        assert other.requests == person.instance.requests == []


@pytest.mark.parametrize("command", COMMANDS[:3])
async def test_without_a_login_it_is_said_how_to_log_in(
    person: Person, command: tuple[str, ...]
) -> None:
    await person.lembas("logout")
    done = await person.lembas(*command)
    assert done == Done(1, "", "nobody is logged in; run `lembas login --server URL`\n")


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_login_that_others_can_read_is_not_used(
    person: Person, command: tuple[str, ...]
) -> None:
    person.paths.credentials_file.chmod(0o644)
    done = await person.lembas(*command)
    assert done.code == 1
    assert "can be read by others; run `chmod 600" in done.err
    assert person.instance.requests == []
