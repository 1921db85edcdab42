"""What a login shell is asked, and what is read of its answer."""

import pytest

from lembasd.engine.native.core import login_shell

MARK = b"m" * 32


def asked(shell: str, *, interactive: bool = True, bashrc: bool = False) -> list[str]:
    return login_shell.arguments(
        shell, "/opt/my python", "mark", interactive=interactive, bashrc=bashrc
    )


def test_an_interactive_shell_is_asked_and_a_plain_one() -> None:
    words = asked("zsh", bashrc=True)
    assert words[:3] == ["-l", "-i", "-c"]
    assert words[3].startswith("exec '/opt/my python' -I -S -c '")
    assert words[3].endswith("' mark")
    assert asked("zsh", interactive=False) == ["-l", "-c", words[3]]
    assert asked("tcsh", interactive=False) == ["-c", words[3]]


def test_a_bash_whose_profile_leaves_bashrc_out_reads_it() -> None:
    say = asked("bash")[-1]
    assert asked("bash", bashrc=True)[-1] == f". ~/.bashrc; {say}"
    assert asked("bash", bashrc=True, interactive=False)[-1] == say


def test_what_is_run_needs_no_quoting_that_a_shell_has_of_its_own() -> None:
    said = asked("fish")[-1]
    assert "\\" not in said
    assert "!" not in said
    assert said.count("'") == 4


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish", "other"])
def test_every_kind_of_shell_has_startup_files(kind: str) -> None:
    below_home, elsewhere = login_shell.startup_files(kind)
    assert not any(name.startswith("/") for name in below_home)
    assert all(name.startswith("/") for name in elsewhere)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"", None),
        (b"welcome\n" + MARK + b"A=1", None),
        (MARK + b"A=1\0B=2" + MARK, b"A=1\0B=2"),
        (b"welcome\n" + MARK + b"A=1" + MARK + b"bye", b"A=1"),
    ],
)
def test_the_answer_stands_between_two_marks(said: bytes, answer: bytes | None) -> None:
    assert login_shell.read_answer(said, MARK) == answer


def test_variables_keep_what_a_person_exports() -> None:
    answer = b"PATH=/bin\0EMPTY=\0TEXT=a=b\nc\0BASH_FUNC_f%%=() {  echo f\n}\0BYTES=\xff\0LANG=C"
    assert login_shell.variables(answer) == {
        "PATH": "/bin",
        "EMPTY": "",
        "TEXT": "a=b\nc",
        "BASH_FUNC_f%%": "() {  echo f\n}",
        "BYTES": "\udcff",
        "LANG": "C",
    }


def test_what_is_one_shells_own_is_left_out() -> None:
    assert login_shell.variables(b"PWD=/\0SHLVL=2\0_=/bin/x\0SHELLOPTS=errexit\0junk\0=x\0") == {}


def test_the_agent_of_a_shell_that_is_gone_is_left_out() -> None:
    taken = {"PATH": "/bin", "SSH_AUTH_SOCK": "/tmp/a", "SSH_AGENT_PID": "7"}
    assert login_shell.without_dead_agent(taken, {}, alive=True) == taken
    assert login_shell.without_dead_agent(taken, {}, alive=False) == {"PATH": "/bin"}
    service = {"SSH_AUTH_SOCK": "/run/agent", "LANG": "C"}
    assert login_shell.without_dead_agent(taken, service, alive=False) == {
        "PATH": "/bin",
        "SSH_AUTH_SOCK": "/run/agent",
    }
