"""Shell completion: the scripts, and what they are told."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.stored_sessions import session_id, store


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("name", ["lembas", "lembasd"])
def test_a_script_is_one_of_its_shell(
    run: CommandLine, shell: str, name: str, tmp_path: Path
) -> None:
    done = run.lembas("completion", shell, "--for", name)
    assert (done.code, done.err) == (0, "")
    assert f"_{name.upper()}_COMPLETE={shell}_complete" in done.out.replace("env ", "")
    program = shutil.which(shell)
    if program is not None:
        script = tmp_path / "script"
        script.write_text(done.out)
        subprocess.run([program, "-n", str(script)], check=True, timeout=20)


def offered(run: CommandLine, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    monkeypatch.setenv("_LEMBAS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["lembas", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        run.lembas()
    said = run.said()
    return [line.partition(",")[2] for line in said.splitlines() if line]


def test_commands_options_and_sessions_are_offered(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(run.paths, 1)
    store(run.paths, 2)
    assert "sessions" in offered(run, monkeypatch, "se")
    assert offered(run, monkeypatch, "sessions", "sh") == ["share", "show"]
    both = offered(run, monkeypatch, "sessions", "show", "ses_")
    assert sorted(both) == [session_id(1), session_id(2)]
    assert offered(run, monkeypatch, "sessions", "delete", session_id(2)[:-1] + "2") == [
        session_id(2)
    ]
    assert offered(run, monkeypatch, "sessions", "export", "x") == []
    assert offered(run, monkeypatch, "sessions", "export", "--f") == ["--format"]
