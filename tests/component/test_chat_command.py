"""What `lembas` without a command, `-c`, `--resume` and `attach` say, and what the commands lend the chat."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lembasd.cli import person
from lembasd.cli.chat_command import CommandPorts
from lembasd.device import config, credentials
from lembasd.device.credentials import Credentials
from lembasd.device.paths import Paths
from lembasd.protocol.errors import UsageError
from lembasd.tui.ports import Defaults, Model, Setting
from tests.support.command_line import CommandLine, Done
from tests.support.fake_instance import TOKEN, FakeInstance

SESSION = "ses_" + "0" * 25 + "1"


@pytest.fixture
def run(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(short_tmp / "h", monkeypatch, capsys)


@pytest.mark.parametrize("args", [(), ("-c",), ("--resume", SESSION), ("attach", SESSION)])
def test_a_chat_needs_a_terminal(run: CommandLine, args: tuple[str, ...]) -> None:
    said = "lembas needs a terminal; `lembas --help` says what else there is\n"
    assert run.lembas(*args) == Done(1, "", said)


def test_a_session_is_named_by_as_much_as_names_no_other(run: CommandLine) -> None:
    run.paths.make()
    run.paths.session(SESSION).mkdir()
    (run.paths.session(SESSION) / "journal.jsonl").touch()
    assert "needs a terminal" in run.lembas("attach", SESSION[:6]).err
    assert "is no session" in run.lembas("--resume", "ses_9").err


def test_no_other_command_loads_what_draws() -> None:
    modules = sorted({target.partition(":")[0] for target in person._LAZY.values()})
    code = f"import sys, lembasd.cli.service, {', '.join(modules)}\n"
    code += "sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


# ── what is lent ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def instance() -> AsyncIterator[FakeInstance]:
    async with FakeInstance() as one:
        yield one


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    made = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    made.make()
    return made


@pytest.fixture
def ports(paths: Paths, instance: FakeInstance) -> CommandPorts:
    login = Credentials(instance.url, TOKEN, "fake", default_model="old")
    credentials.store(paths.credentials_file, login)
    return CommandPorts(paths)


ACCOUNT = {
    "enabled": True,
    "available": True,
    "personality": "pirate",
    "personality_custom": "",
    "instructions": "be brief",
}


async def test_use_and_the_months_cost_are_the_accounts(
    ports: CommandPorts, instance: FakeInstance
) -> None:
    assert (await ports.usage(), await ports.month()) == (
        "this instance does not count use",
        "",
    )
    cost = {"EUR": 2.0, "USD": 0.75}
    instance.usage = {"month": {"tokens_in": 1200, "tokens_out": 30, "cost_by_currency": cost}}
    assert await ports.month() == "€2.00 · $0.75"
    assert (await ports.usage()).splitlines()[0] == "this month   1,200 tokens in, 30 out"


async def test_without_a_login_there_is_no_month_and_the_rest_says_how_to_log_in(
    paths: Paths,
) -> None:
    ports = CommandPorts(paths)
    assert await ports.month() == ""
    with pytest.raises(UsageError, match="lembas login"):
        await ports.usage()
    assert ("mode", "manual") in [(one.key, one.value) for one in await ports.settings()]


async def test_models_come_with_their_efforts(ports: CommandPorts, instance: FakeInstance) -> None:
    instance.models = [
        {"id": "voice", "kind": "stt"},
        {"id": "qwen", "context": 262144, "efforts": ["low", "high"]},
    ]
    assert await ports.models() == [Model("qwen", "262k tokens; effort low, high", ("low", "high"))]


async def test_a_change_of_the_accounts_is_the_one_field(
    ports: CommandPorts, instance: FakeInstance, paths: Paths
) -> None:
    instance.personalization = ACCOUNT
    settings = {one.key: one for one in await ports.settings()}
    assert settings["personality"] == Setting("personality", "pirate", "account")
    assert settings["mode"] == Setting("mode", "manual", "this device")
    said = await ports.change("instructions", "be long")
    assert said.startswith("set for your account at ")
    (put,) = [one for one in instance.requests if one.method == "PUT"]
    assert put.body == b'{"instructions":"be long","enabled":true}'
    assert config.load(paths.config_file).config.instructions is None


async def test_a_change_of_this_devices_is_written_down_and_told(ports: CommandPorts) -> None:
    assert await ports.change("mode", "plan") == "mode is set"
    assert ports.defaults() == Defaults("", "plan", "default")
    with pytest.raises(UsageError, match="is not a setting"):
        await ports.change("nothing", "1")


def test_a_config_that_cannot_be_read_leaves_the_defaults_open(paths: Paths) -> None:
    paths.config_file.write_text("mode: [")
    assert CommandPorts(paths).defaults() == Defaults("", "", "")
