"""Which shell a person gets, and what it is started with."""

import os
import pwd
from pathlib import Path

import pytest

from lembasd.device.person import LoginShell, Person, find_person, login_shell
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Remote, Settings
from lembasd.protocol.lembas import TerminalOutput
from lembasd.pty.core.flow import Flow
from lembasd.pty.core.record import Size
from lembasd.pty.master import exit_code
from lembasd.pty.shell import shell_environment
from lembasd.pty.terminal import OUTPUT, output_overhead, place


def make(path: Path) -> str:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_shells_that_the_protocol_names_are_named(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / kind)
    shell = login_shell(path)
    assert shell == LoginShell(path, kind)
    assert shell.argv0 == f"-{kind}"


def test_any_other_shell_is_other(tmp_path: Path) -> None:
    path = make(tmp_path / "nu")
    assert login_shell(path) == LoginShell(path, "other")


@pytest.mark.parametrize("path", ["", "/none/bash", "/", "/etc/passwd"])
def test_a_shell_that_cannot_be_run_is_replaced(path: str) -> None:
    assert login_shell(path) == LoginShell("/bin/sh", "other")


def test_the_person_is_the_user_of_this_process() -> None:
    entry = pwd.getpwuid(os.getuid())
    assert find_person({}) == Person(entry.pw_name, entry.pw_dir, login_shell(entry.pw_shell))


def test_a_home_of_their_own_stands(tmp_path: Path) -> None:
    assert find_person({"HOME": str(tmp_path)}).home == str(tmp_path)


@pytest.mark.parametrize("home", ["", "here", "/none"])
def test_a_home_that_is_none_is_not_taken(home: str) -> None:
    assert find_person({"HOME": home}) == find_person({})


def test_the_environment_is_a_logins(tmp_path: Path) -> None:
    person = Person("kim", "/home/kim", LoginShell("/bin/bash", "bash"))
    variables = {"PATH": "/bin", "LANG": "C.UTF-8", "HOME": "/", "LEMBAS_HOME": "/x"}
    assert shell_environment(variables, person, tmp_path) == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "LEMBAS_HOME": "/x",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "HOME": "/home/kim",
        "USER": "kim",
        "LOGNAME": "kim",
        "SHELL": "/bin/bash",
        "PWD": str(tmp_path),
    }


KIM = Person("kim", "/home/kim", LoginShell("/bin/bash", "bash"))


def test_nothing_of_the_terminal_that_the_service_came_from_is_in_it(tmp_path: Path) -> None:
    given = {
        "PATH": "/x/venv/bin:/bin:/home/kim/bin",
        "LANG": "de_DE.UTF-8",
        "VIRTUAL_ENV": "/x/venv",
        "TMUX": "/tmp/tmux-1/default,1,0",
        "KITTY_WINDOW_ID": "1",
        "SSH_TTY": "/dev/pts/9",
        "SSH_AUTH_SOCK": "/run/agent",
        "SHLVL": "3",
        "OLDPWD": "/",
        "PS1": "> ",
    }
    found = shell_environment(given, KIM, tmp_path)
    assert found == {
        "PATH": "/bin:/home/kim/bin",
        "LANG": "de_DE.UTF-8",
        "SSH_AUTH_SOCK": "/run/agent",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "HOME": "/home/kim",
        "USER": "kim",
        "LOGNAME": "kim",
        "SHELL": "/bin/bash",
        "PWD": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("given", "file", "found"),
    [
        ({"LANG": "de_DE.UTF-8"}, "LANG=fr_FR.UTF-8\n", {"LANG": "de_DE.UTF-8"}),
        ({"LC_ALL": "C"}, "LANG=fr_FR.UTF-8\n", {"LC_ALL": "C"}),
        ({"LC_CTYPE": "de_DE"}, "LANG=fr_FR.UTF-8\n", {"LC_CTYPE": "de_DE"}),
        (
            {},
            '# a system\'s\nLANG="fr_FR.UTF-8"\nLC_TIME=C\nX=1\n',
            {"LANG": "fr_FR.UTF-8", "LC_TIME": "C"},
        ),
        ({"LC_CTYPE": "C.UTF-8"}, "LANG=fr_FR.UTF-8\n", {"LANG": "fr_FR.UTF-8"}),
        ({}, "LANG=\n", None),
        ({}, None, None),
    ],
    ids=["LANG", "LC_ALL", "LC_CTYPE", "the system's", "what Python sets", "empty", "none"],
)
def test_a_person_without_a_language_has_the_systems_or_any_utf8(
    tmp_path: Path, given: dict[str, str], file: str | None, found: dict[str, str] | None
) -> None:
    path = tmp_path / "locale"
    if file is not None:
        path.write_text(file)
    variables = shell_environment(given, KIM, tmp_path, [tmp_path / "none", path])
    shown = {name: value for name, value in variables.items() if name[:3] in {"LAN", "LC_"}}
    if found is None:
        assert list(shown) == ["LC_CTYPE"]
        assert shown["LC_CTYPE"].endswith("UTF-8")
    else:
        assert shown == found


def test_a_local_terminal_starts_at_home(tmp_path: Path) -> None:
    person = Person("kim", str(tmp_path), LoginShell("/bin/sh", "other"))
    assert place(None, Settings(), person, local=True) == tmp_path.resolve()


def test_a_links_terminal_starts_in_the_first_root_trusted_or_not(tmp_path: Path) -> None:
    person = Person("kim", "/", LoginShell("/bin/sh", "other"))
    remote = Remote(enabled=True, terminal=True, roots=[str(tmp_path), "/usr"])
    assert place(None, Settings(remote=remote), person, local=False) == tmp_path.resolve()


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (3 << 8, 3), (9, 137), (9 | 0x80, 137), (None, None)]
)
def test_exit_codes_are_a_shells(status: int | None, code: int | None) -> None:
    assert exit_code(status) == code


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
def test_the_weight_of_a_message_is_what_the_flow_counts(count: int) -> None:
    terminal = "term_000000000000"
    output = TerminalOutput(terminalId=terminal, data=b"x" * count)
    payload = jsonrpc.notification(OUTPUT, output)
    assert Flow(output_overhead(terminal), Size(80, 24)).wire_bytes(count) == len(payload)
