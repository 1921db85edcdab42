"""The commands that only read and change files, and how every command ends."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from lembasd import __version__
from lembasd.cli import running
from lembasd.device import config
from lembasd.protocol.control import Remote
from lembasd.protocol.errors import ConfigError, LembasError, RequestRefused, UsageError
from tests.support.command_line import CommandLine, Done

# ── how a command ends ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("say which; it is needed", 3), 3, "say which; it is needed\n"),
        (ConfigError("/c.yaml", "mode must be a mode", 4), 1, "/c.yaml, line 4: mode must be a"),
        (RequestRefused(-32602, "not from here"), 4, "not from here\n"),
        (LembasError("it went wrong"), 1, "it went wrong\n"),
        (
            PermissionError(13, "Permission denied", "/etc/x"),
            1,
            "/etc/x: Permission denied; see that it is yours and that you may write there\n",
        ),
        (OSError(28, "No space", "/c"), 1, "/c: No space; free some space, then try again\n"),
        (OSError("it is odd"), 1, "it is odd\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.exceptions.Abort(), 130, ""),
        (click.exceptions.Exit(5), 5, ""),
        (
            click.BadParameter("no such thing"),
            2,
            "Invalid value: no such thing; see `x fail --help`\n",
        ),
    ],
)
def test_an_expected_error_is_one_sentence_and_a_code(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.group()
    def group() -> None: ...

    @group.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("sys.argv", ["x", "fail"])
    assert running.main(group, "x") == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said) if said else not err.strip()
    assert "Traceback" not in err


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def fail() -> None:
        raise ZeroDivisionError

    group = click.Group(commands={"fail": fail})
    monkeypatch.setattr("sys.argv", ["x", "fail"])
    with pytest.raises(ZeroDivisionError):
        running.main(group, "x")


def test_a_missing_part_does_not_break_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.group(
        cls=running.LazyGroup,
        lazy={"gone": "lembasd.cli.gone:gone", "trust": "lembasd.cli.trust_command:trust_group"},
    )
    def group() -> None: ...

    monkeypatch.setattr("sys.argv", ["x", "--help"])
    assert running.main(group, "x") == 0
    listed = capsys.readouterr().out
    assert "trust" in listed
    assert "gone" not in listed
    monkeypatch.setattr("sys.argv", ["x", "gone"])
    assert running.main(group, "x") == 1
    assert "`gone` cannot be loaded" in capsys.readouterr().err


def test_who_reads_no_further_is_no_error() -> None:
    code = "import sys; from lembasd.cli.person import main; sys.exit(main())"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait(20) == 1


@pytest.mark.parametrize("args", [("--help",), ("remote", "--help"), ("trust", "--help")])
def test_help_is_given(run: CommandLine, args: tuple[str, ...]) -> None:
    done = run.lembas(*args)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: lembas")


def test_the_version_is_given(run: CommandLine) -> None:
    assert run.lembas("--version") == Done(0, f"lembas {__version__}\n", "")
    assert run.lembasd("--version") == Done(0, f"lembasd {__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (("nothing",), "lembas"),
        (("models", "--nothing"), "lembas models"),
        (("remote", "mode", "wide"), "lembas remote mode"),
        (("trust", "add"), "lembas trust add"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error_that_names_the_help(
    run: CommandLine, args: tuple[str, ...], command: str
) -> None:
    done = run.lembas(*args)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.endswith(f"; see `{command} --help`\n")


def test_a_short_command_imports_no_server_client_or_engine() -> None:
    code = (
        "import sys; sys.argv = ['lembas', 'trust', 'list']\n"
        "from lembasd.cli.person import main; main()\n"
        "heavy = {'httpx', 'websockets', 'starlette', 'uvicorn', 'lembasd.engine', 'lembasd.hub'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# ── trust ───────────────────────────────────────────────────────────────────────────────────────


def test_trust_is_given_listed_and_taken_back(run: CommandLine, tmp_path: Path) -> None:
    assert run.lembas("trust", "list", "--json").value == {"trusted": []}
    assert run.lembas("trust", "add", str(tmp_path)).out == f"{tmp_path} is now trusted\n"
    assert run.lembas("trust", "add", str(tmp_path)).out == f"{tmp_path} is already trusted\n"
    assert run.lembas("trust", "list", "--json").value == {"trusted": [str(tmp_path)]}
    assert run.lembas("trust", "list").out == f"{tmp_path}\n"
    assert run.lembas("trust", "remove", str(tmp_path)).code == 0
    refused = run.lembas("trust", "remove", str(tmp_path))
    assert (refused.code, refused.err) == (
        1,
        f"{tmp_path} was not trusted; see `lembas trust list`\n",
    )


def test_what_is_no_directory_is_not_trusted(run: CommandLine, tmp_path: Path) -> None:
    for group in ("trust", "remote"):
        for name in (f"{tmp_path}/gone", ""):
            refused = run.lembas(group, "add", name)
            assert (refused.code, refused.err) == (
                1,
                f"{name!r} is not a directory; make it, or name another\n",
            )


# ── remote ──────────────────────────────────────────────────────────────────────────────────────


def test_each_limit_is_one_key_of_the_config(run: CommandLine, tmp_path: Path) -> None:
    for args in (
        ("on",),
        ("add", str(tmp_path)),
        ("add", f"{tmp_path}/."),
        ("mode", "auto"),
        ("terminal", "on"),
        ("scheduled", "on"),
    ):
        assert run.lembas("remote", *args).code == 0
    read = config.load(run.paths.config_file).config
    assert read.remote == Remote(
        enabled=True, roots=[str(tmp_path)], max_mode="auto", terminal=True, scheduled=True
    )
    assert run.lembas("remote", "list", "--json").value == {
        "enabled": True,
        "roots": [str(tmp_path)],
        "max_mode": "auto",
        "require_trust": True,
        "terminal": True,
        "scheduled": True,
        "approval_timeout": 300.0,
    }
    assert f"roots             {tmp_path}\n" in run.lembas("remote", "list").out
    for args in (("off",), ("remove", str(tmp_path)), ("terminal", "off"), ("mode", "plan")):
        assert run.lembas("remote", *args).code == 0
    assert run.lembas("service", "scheduled", "off").code == 0
    assert config.load(run.paths.config_file).config.remote == Remote(max_mode="plan")


def test_remote_work_without_a_folder_says_what_is_missing(run: CommandLine) -> None:
    assert "run `lembas remote add DIR`" in run.lembas("remote", "on").out
    assert "roots             none; add a folder with" in run.lembas("remote", "list").out
    assert "approval_timeout  300 s\n" in run.lembas("remote", "list").out


def test_a_folder_that_is_opened_says_what_else_it_takes(run: CommandLine, tmp_path: Path) -> None:
    opened = f"the instance may work in {tmp_path} and below\n"
    yet = "no session opens there yet: "
    off = "remote work is off on this device; turn it on there with `lembas remote on`\n"
    trust = (
        f"{tmp_path} is not a trusted project; "
        f"trust it on the device with `lembas trust add {tmp_path}`\n"
    )
    assert run.lembas("remote", "add", str(tmp_path)) == Done(0, f"{opened}{yet}{off}", "")
    assert run.lembas("remote", "on") == Done(0, f"{yet}{trust}", "")
    assert run.lembas("remote", "add", str(tmp_path)) == Done(0, f"{opened}{yet}{trust}", "")
    run.lembas("trust", "add", str(tmp_path))
    assert run.lembas("remote", "add", str(tmp_path)) == Done(0, opened, "")
    assert run.lembas("remote", "on") == Done(0, "", "")


def test_a_folder_that_is_not_there_is_not_opened(run: CommandLine, tmp_path: Path) -> None:
    assert run.lembas("remote", "add", str(tmp_path / "gone")).code == 1
    refused = run.lembas("remote", "remove", str(tmp_path))
    assert (refused.code, refused.err) == (
        1,
        f"{tmp_path} is not among the folders; see `lembas remote list`\n",
    )


def test_a_broken_config_stops_a_command_and_is_left_as_it_is(run: CommandLine) -> None:
    run.paths.make()
    run.paths.config_file.write_text("mode: edit\nremote: {max_mode: wide}\n")
    for args in (("remote", "on"), ("remote", "list"), ("config", "list")):
        done = run.lembas(*args)
        assert done.code == 1
        assert "remote.max_mode must be one of plan, manual, edit, auto" in done.err
    assert run.paths.config_file.read_text() == "mode: edit\nremote: {max_mode: wide}\n"


# ── config ──────────────────────────────────────────────────────────────────────────────────────


def test_a_setting_is_set_read_and_taken_back(run: CommandLine) -> None:
    assert run.lembas("config", "path").out == f"{run.paths.config_file}\n"
    for key, written, shown in (
        ("remote.roots", "[~/work, /srv]", "~/work, /srv"),
        ("remote.approval_timeout", "60", "60"),
        ("hub.log.level", "debug", "debug"),
        ("remote.require_trust", "false", "false"),
        ("model", "qwen3-coder", "qwen3-coder"),
        ("model", "null", "null"),
    ):
        assert run.lembas("config", "set", key, written) == Done(0, "", "")
        assert run.lembas("config", "get", key).out == f"{shown}\n"
    listed = run.lembas("config", "list", "--json").value
    assert listed == config.as_settings(config.load(run.paths.config_file).config)
    assert "hub.log.level: debug\n" in run.lembas("config", "list").out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("get", "remote.root"), 2, "remote.root is not a setting; see `lembas config list`"),
        (("set", "remote", "true"), 2, "remote is not a setting"),
        (("set", "mode", "[unclosed"), 2, "is no value; write it as in config.yaml"),
        (("set", "mode", "wide"), 2, "mode must be one of plan, manual, edit, auto"),
    ],
)
def test_what_is_no_setting_or_value_is_refused(
    run: CommandLine, args: tuple[str, ...], code: int, said: str
) -> None:
    done = run.lembas("config", *args)
    assert (done.code, said in done.err) == (code, True)
    # the file is not to blame
    assert str(run.paths.config_file) not in done.err
    assert not run.paths.config_file.exists()


def test_an_unknown_key_is_warned_of(run: CommandLine) -> None:
    run.paths.make()
    run.paths.config_file.write_text("mode: edit\nmodle: x\n")
    done = run.lembas("config", "list")
    assert done.code == 0
    assert done.err == f"{run.paths.config_file}, line 2: modle is not a setting; remove it\n"
