"""What real shells mark in a terminal (link.md, `_lembas/terminal/open`), and that nothing else is changed for a person."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pyte
import pytest

from lembasd.device.person import LoginShell
from lembasd.protocol.control import Settings
from lembasd.pty.launch import SCRIPTS, launch
from tests.support.prompt_marks import commands, marks, places, waits
from tests.support.terminal_scene import OPEN, TERMINAL, Scene

SHELLS: Final = ("bash", "zsh", "fish")
#: each shell's file that is read at the start of an interactive one
RC: Final = {"bash": ".bash_profile", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}


class Desk(Scene):
    """A person at a terminal with a shell of this kind."""

    def __init__(self, base: Path, kind: str) -> None:
        path = shutil.which(kind)
        if path is None:
            pytest.skip(f"{kind} is not installed")
        super().__init__(base, path)
        self.kind = kind

    @property
    def output(self) -> bytes:
        return self.hub.output()

    def rc(self, text: str) -> None:
        self.file(RC[self.kind], text)

    async def begun(self, *, integration: bool = True) -> None:
        await self.opened(integration=integration)
        if integration:
            await self.prompt()

    async def prompt(self) -> None:
        """Wait for the first prompt."""
        await self.hub.until(lambda: waits(self.output))

    async def does(self, line: str) -> None:
        """Type one command, and wait for its end and the prompt after it."""
        ended = len(commands(self.output)) + 2
        self.type(f"{line}\n")
        await self.hub.until(lambda: len(commands(self.output)) >= ended and waits(self.output))

    async def nothing(self, keys: str) -> None:
        """Type what is no command, and wait for the next prompt."""
        seen = len(marks(self.output))
        self.type(keys)
        await self.hub.until(lambda: len(marks(self.output)) >= seen + 2 and waits(self.output))

    def read(self, name: str) -> str:
        return (self.base / name).read_text()


@pytest.fixture(params=SHELLS)
async def desk(request: pytest.FixtureRequest, short_tmp: Path) -> AsyncIterator[Desk]:
    async with at(short_tmp, request.param) as one:
        yield one


@pytest.fixture
async def bash(short_tmp: Path) -> AsyncIterator[Desk]:
    async with at(short_tmp, "bash") as one:
        yield one


@pytest.fixture
async def zsh(short_tmp: Path) -> AsyncIterator[Desk]:
    async with at(short_tmp, "zsh") as one:
        yield one


@pytest.fixture
async def fish(short_tmp: Path) -> AsyncIterator[Desk]:
    async with at(short_tmp, "fish") as one:
        yield one


@asynccontextmanager
async def at(base: Path, kind: str) -> AsyncIterator[Desk]:
    await asyncio.to_thread(base.mkdir, exist_ok=True)
    one = Desk(base, kind)
    # zsh asks newcomers questions, fish greets them
    one.file(".zshrc", "")
    one.file(".config/fish/config.fish", "set -g fish_greeting\n")
    async with one.milestones, one.hub:
        yield one
        await one.aclose()


# ── marks ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("terminal/open: shell", "terminal/open: integration")
async def test_open_says_which_shell_it_is_and_that_it_marks_its_prompts(desk: Desk) -> None:
    answer = await desk.opened(cols=80, rows=24)
    assert answer == {
        "terminalId": TERMINAL,
        "cwd": str(desk.project),
        "cols": 80,
        "rows": 24,
        "shell": desk.kind,
        "integration": True,
    }


@pytest.mark.spec("shell integration: OSC 133 and OSC 7")
async def test_a_command_is_marked_with_its_status_and_an_empty_line_ends_none(desk: Desk) -> None:
    await desk.begun()
    assert commands(desk.output) == []
    await desk.does("false")
    await desk.nothing("\n")
    await desk.does("true")
    await desk.nothing("   \n")
    if desk.kind != "fish":  # which says nothing to it
        seen = len(desk.output)
        desk.type("abandoned")
        await desk.hub.until(lambda: b"bandoned" in desk.output[seen:])
        await desk.nothing("\x03")
    await desk.does("sh -c 'exit 7'")
    assert commands(desk.output) == ["C", "D;1", "C", "D;0", "C", "D;7"]


@pytest.mark.parametrize("kind", ["bash", "zsh"])
async def test_every_prompt_is_between_a_and_b_and_the_output_between_c_and_d(
    short_tmp: Path, kind: str
) -> None:
    async with at(short_tmp, kind) as desk:
        await desk.begun()
        await desk.does("echo he''llo")
        await desk.nothing("\n")
        assert marks(desk.output) == ["A", "B", "C", "D;0", "A", "B", "A", "B"]
        begun = desk.output.index(b"\x1b]133;C")
        ended = desk.output.index(b"\x1b]133;D")
        assert b"hello" in desk.output[begun:ended]


async def test_a_command_of_several_lines_begins_once(desk: Desk) -> None:
    loop = {"fish": "for i in 1 2\r echo x$i\rend"}.get(
        desk.kind, "for i in 1 2; do\necho x$i\ndone"
    )
    await desk.begun()
    await desk.does(loop)
    await desk.does("echo a; echo b; echo c")
    assert commands(desk.output) == ["C", "D;0", "C", "D;0"]


@pytest.mark.parametrize("kind", ["bash", "zsh"])
async def test_a_line_that_cannot_be_read_is_no_command(short_tmp: Path, kind: str) -> None:
    async with at(short_tmp, kind) as desk:
        await desk.begun()
        await desk.nothing("if )\n")
        assert commands(desk.output) == []


async def test_an_interrupted_command_ends_and_the_terminal_goes_on(desk: Desk) -> None:
    await desk.begun()
    desk.type("sleep 600\n")
    await desk.hub.until(lambda: commands(desk.output) == ["C"])
    shell = (await desk.milestones.wait("pty.shell_started"))["shell_pid"]
    await desk.until_child(shell, "sleep")
    desk.type("\x03")
    await desk.hub.until(lambda: len(commands(desk.output)) == 2 and waits(desk.output))
    assert commands(desk.output) == ["C", "D;130"]


async def test_the_end_of_input_ends_the_shell(desk: Desk) -> None:
    await desk.begun()
    desk.type("\x04")
    assert await desk.exit() == 0
    assert commands(desk.output) == []


@pytest.mark.spec("shell integration: OSC 133 and OSC 7")
@pytest.mark.parametrize(
    "name",
    [b"a b", b"q'u\"o`t$e", b"new\nline", "é漢🙂".encode(), b"100%;#?", b"\xff\xfe", b"~t\x1b\x07"],
    ids=["space", "quotes", "newline", "wide", "percent", "no UTF-8", "control"],
)
async def test_a_directory_is_told_byte_by_byte(desk: Desk, name: bytes) -> None:
    below = os.fsencode(desk.base) + b"/odd"
    os.makedirs(below + b"/" + name)  # noqa: PTH103 - bytes
    await desk.begun()
    await desk.does("cd ~/odd/*")
    expected = "file://" + socket.gethostname() + quote(below + b"/" + name, safe="/~")
    assert places(desk.output)[-1] == expected
    assert places(desk.output)[0] == "file://" + socket.gethostname() + str(desk.project)


# ── prompts that are built anew ─────────────────────────────────────────────────────────────────

REBUILT: Final = {
    "bash: a string": ("bash", "PROMPT_COMMAND='PS1=\"[$?] > \"'"),
    "bash: an array": ("bash", "PROMPT_COMMAND=('PS1=\"[$?]\"' 'PS1+=\" > \"')"),
    "bash: after two lines": ("bash", "PROMPT_COMMAND='PS1=\"one\\ntwo [$?] > \"'"),
    "zsh: a hook": ("zsh", 'f() { PROMPT="[$?] > " }; precmd_functions+=(f)'),
    "zsh: a function": ("zsh", 'precmd() { PROMPT="[$?] > " }'),
    "zsh: a list of its own": ("zsh", 'f() { PROMPT="[$?] > " }; precmd_functions=(f)'),
    "zsh: expanded": ("zsh", "setopt prompt_subst; PROMPT='$(echo \"[$?]\") > '"),
    "fish: a function": ("fish", 'function fish_prompt; echo -n "[$status] > "; end'),
}


@pytest.mark.parametrize("name", REBUILT)
async def test_a_prompt_that_is_built_anew_each_time_keeps_its_marks(
    short_tmp: Path, name: str
) -> None:
    kind, text = REBUILT[name]
    async with at(short_tmp, kind) as desk:
        desk.rc(f"{text}\n")
        if "of its own" in name:  # then the first command brings the marks back
            await desk.opened()
            await desk.shows(b" > ")
            desk.type("true\n")
            await desk.prompt()
        else:
            await desk.begun()
        for status in ("1", "0"):
            await desk.does("false" if status == "1" else "true")
            assert shown_prompt(desk.output).endswith(f"[{status}] > ")


def shown_prompt(output: bytes) -> str:
    """What is between the last A and B, without what sets colours."""
    prompt = output.rpartition(b"\x1b]133;A\x07")[2].partition(b"\x1b]133;B\x07")[0]
    screen = pyte.Screen(80, 5)
    pyte.ByteStream(screen).feed(prompt)
    return screen.display[screen.cursor.y][: screen.cursor.x]


LATER: Final = {
    "bash": "PROMPT_COMMAND='PS1=\"new > \"'",
    "zsh": "g() { PROMPT='new > ' }; precmd_functions+=(g)",
    "fish": "function fish_prompt; echo -n 'new > '; end",
}


async def test_a_prompt_that_is_changed_at_the_prompt_keeps_its_marks(desk: Desk) -> None:
    await desk.begun()
    await desk.does(LATER[desk.kind])
    await desk.does("true")
    assert shown_prompt(desk.output) == "new > "


async def test_a_second_reading_of_the_startup_files_doubles_nothing(desk: Desk) -> None:
    desk.rc(
        {"bash": 'PROMPT_COMMAND="true;${PROMPT_COMMAND-}"'}.get(
            desk.kind, LATER["fish"] if desk.kind == "fish" else LATER["zsh"]
        )
        + "\n"
    )
    await desk.begun()
    for _ in range(2):
        await desk.does(f"source ~/{RC[desk.kind]}")
    seen = len(desk.output)
    await desk.does("true")
    assert commands(desk.output[seen:]) == ["C", "D;0"]
    if desk.kind != "fish":
        assert marks(desk.output[seen:]) == ["C", "D;0", "A", "B"]


#: how bash-preexec goes about it: it installs itself at the first prompt and asks at each command what it belongs to
PREEXEC: Final = r"""
__bp_precmd_invoke_cmd() { __bp_mode=; }
__bp_interactive_mode() { __bp_mode=on; }
__bp_invoke() {
    [[ $__bp_mode == on ]] || return
    if [[ $'\n'"$(printf '%s\n' "${PROMPT_COMMAND[@]}")"$'\n' == *$'\n'"$BASH_COMMAND"$'\n'* ]]; then
        __bp_mode=; return
    fi
    __bp_mode=; echo "before $BASH_COMMAND" >> ~/seen
}
__bp_install() {
    trap __bp_invoke DEBUG
    PROMPT_COMMAND=$'__bp_precmd_invoke_cmd\n'"${PROMPT_COMMAND//$__bp_string/:}"
    PROMPT_COMMAND+=($'__bp_interactive_mode')
    __bp_interactive_mode
}
__bp_string='__bp_install'
PROMPT_COMMAND="$__bp_string"
"""


async def test_a_preexec_of_the_persons_sees_their_commands_and_none_of_ours(bash: Desk) -> None:
    bash.rc(PREEXEC)
    await bash.begun()
    await bash.does("true one")
    await bash.nothing("\n")
    await bash.does("true two")
    assert bash.read("seen") == "before true one\nbefore true two\n"
    assert commands(bash.output) == ["C", "D;0", "C", "D;0"]


async def test_a_debug_trap_of_the_persons_stays(bash: Desk) -> None:
    bash.rc("trap 'echo \"$BASH_COMMAND\" >> ~/seen' DEBUG\n")
    await bash.begun()
    await bash.does("true one")
    assert "true one" in bash.read("seen").splitlines()
    assert set(bash.read("seen").splitlines()) == {"__lembas_begin", "__lembas_prompt", "true one"}


async def test_hooks_of_the_persons_find_the_statuses_of_the_command(bash: Desk) -> None:
    bash.rc("PROMPT_COMMAND='echo \"$? ${PIPESTATUS[*]}\" >> ~/seen'\n")
    await bash.begun()
    await bash.does("false | true | sh -c 'exit 3'")
    assert bash.read("seen").splitlines()[-1] == "3 1 0 3"


async def test_a_prompt_of_fish_finds_the_statuses_of_the_command(fish: Desk) -> None:
    fish.rc('function fish_prompt; echo -n "$status $pipestatus > "; end\n')
    await fish.begun()
    await fish.does("false | true | sh -c 'exit 3'")
    assert shown_prompt(fish.output) == "3 1 0 3 > "


OPTIONS: Final = {
    "bash": "set -uCfT; IFS=ab; shopt -s nocasematch nullglob extdebug; set -o pipefail",
    "zsh": "setopt no_unset no_clobber ksh_arrays sh_word_split no_glob err_return warn_create_global",
    "fish": "set -g fish_features",
}


async def test_options_of_the_persons_do_not_touch_the_marks(desk: Desk) -> None:
    desk.rc(f"{OPTIONS[desk.kind]}\n")
    desk.file("p/Ab/c", "")
    await desk.begun()
    await desk.does("cd Ab")
    await desk.does("cd ..")
    assert [one.rpartition("/")[2] for one in places(desk.output)[-2:]] == ["Ab", "p"]
    assert commands(desk.output) == ["C", "D;0", "C", "D;0"]


async def test_a_shell_that_ends_at_errors_does_not_end_at_ours(bash: Desk) -> None:
    bash.rc("set -e\n")
    await bash.begun()
    await bash.nothing("\n")
    bash.type("cd; false\n")
    assert await bash.exit() == 1


async def test_a_trace_shows_one_line_of_ours(bash: Desk) -> None:
    await bash.begun()
    await bash.does("set -x")
    seen = len(bash.output)
    await bash.nothing("\n")
    shown = bash.output[seen:]
    assert shown.count(b"+ ") == 1
    assert b"+ __lembas_prompt" in shown


# ── nothing else changes ────────────────────────────────────────────────────────────────────────

#: what a person could look at, each into a file of its own
LOOKS: Final = {
    "bash": {
        "env": "env -0",
        "options": "set -o; shopt",
        "alias": "alias",
        "functions": "declare -F",
        "traps": "trap -p",
        "history": "declare -p HISTFILE HISTSIZE HISTFILESIZE; echo ${HISTCONTROL-}",
        "self": "echo $0 $- $SHLVL",
        "keys": "bind -p",
        "jobs": "jobs; ulimit -a; umask",
    },
    "zsh": {
        "env": "env -0",
        "options": "setopt; unsetopt",
        "alias": "alias",
        "functions": "print -l ${(ok)functions}",
        "traps": "trap",
        "history": "echo $HISTFILE $HISTSIZE $SAVEHIST",
        "self": "echo $0 $- $SHLVL $ZDOTDIR; print -r -- $PROMPT",
        "keys": "bindkey",
        "jobs": "jobs; ulimit -a; umask",
    },
    "fish": {
        "env": "env -0",
        "options": "status features",
        "alias": "alias; abbr",
        "functions": "functions -n -a | string split , | sort",
        "traps": "trap",
        "history": "echo $fish_history",
        "self": "status is-login; echo $status $SHLVL; functions --no-details fish_prompt",
        "keys": "bind | sort",
        "jobs": "jobs; ulimit -a; umask",
    },
}
#: what is there beside, for docs/terminals.md to list
OURS: Final = {
    "bash": {"functions", "traps", "options", "alias"},
    "zsh": {"functions"},
    "fish": {"functions"},
}


async def looked_at(base: Path, kind: str, *, integration: bool) -> dict[str, list[str]]:
    """What a shell of this kind shows of itself."""
    async with at(base, kind) as desk:
        desk.file(".bash_logout", "true\n")
        desk.rc("export THEIRS=1\nalias ll='ls -l'\n")
        await desk.begun(integration=integration)
        for name, look in LOOKS[kind].items():
            block = f"begin; {look}; end" if kind == "fish" else "{ " + look + "; }"
            desk.type(f"{block} > ~/{name} 2>&1\n")
        desk.type("exit\n")
        await desk.exit()
        return {name: said(desk, name) for name in LOOKS[kind]}


def said(desk: Desk, name: str) -> list[str]:
    """The lines of a look, in order, with the home directory as ~."""
    text = desk.read(name).replace("\0", "\n").replace(str(desk.base), "~")
    return sorted(text.splitlines())


@pytest.mark.parametrize("kind", SHELLS)
async def test_nothing_else_of_a_persons_environment_changes(short_tmp: Path, kind: str) -> None:
    plain = await looked_at(short_tmp / "1", kind, integration=False)
    marked = await looked_at(short_tmp / "2", kind, integration=True)
    different = {name for name in plain if plain[name] != marked[name]}
    assert different == OURS[kind]
    functions = set(marked["functions"]) ^ set(plain["functions"])
    names = {one.removeprefix("declare -f ") for one in functions}
    assert {one for one in names if not one.startswith("__lembas_")} <= {"logout"}
    if kind == "bash":
        options = set(plain["options"]) ^ set(marked["options"])
        assert {one.split()[0] for one in options} == {"login_shell"}
        assert set(marked["alias"]) - set(plain["alias"]) == {"alias logout='exit'"}
        assert marked["traps"] == ["' EXIT", "trap -- '__lembas_leave"]


async def test_what_runs_in_it_finds_nothing_of_ours(desk: Desk) -> None:
    await desk.begun()
    await desk.does("env > ~/env1; sh -c 'env > ~/env2; exec bash -c \"env > ~/env3\"'")
    for name in ("env1", "env2", "env3"):
        lines = desk.read(name).upper().splitlines()
        assert [one for one in lines if "LEMBAS" in one and "LEMBAS_HOME=" not in one] == []
        assert [one for one in lines if one.startswith(("ZDOTDIR=", "PS0=", "PROMPT"))] == []


async def test_another_shell_in_it_shows_no_marks(bash: Desk) -> None:
    bash.rc("export PS1='mine> '\n")
    await bash.begun()
    seen = len(bash.output)
    bash.type("exec bash --norc --noprofile\n")
    await bash.shows(b"\x1b]133;C")
    bash.type("echo nest''ed; set -u\n")
    await bash.hub.until(lambda: b"nested" in bash.output[seen:])
    bash.type("dash -i\necho in''ner\n")
    await bash.hub.until(lambda: b"inner" in bash.output[seen:])
    assert marks(bash.output[seen:]) == ["C"]
    assert b"mine> " in bash.output[seen:]


async def test_another_bash_is_not_given_hooks_that_it_does_not_know(bash: Desk) -> None:
    bash.rc("export PROMPT_COMMAND='echo \"$?\" >> ~/seen'\n")
    await bash.begun()
    await bash.does("sh -c 'exit 3'")
    assert bash.read("seen").splitlines()[-1] == "3"
    seen = len(bash.output)
    bash.type("bash --norc\n")
    bash.type("echo in''ner; env | grep -c PROMPT_COMMAND\n")
    await bash.hub.until(lambda: b"inner\r\n0" in bash.output[seen:])
    assert marks(bash.output[seen:]) == ["C"]
    assert b"not found" not in bash.output


# ── startup files ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("there", "read"),
    [
        ([".bash_profile", ".bash_login", ".profile"], ".bash_profile"),
        ([".bash_login", ".profile"], ".bash_login"),
        ([".profile"], ".profile"),
    ],
)
async def test_bash_reads_the_first_of_a_login_shells_files(
    bash: Desk, there: list[str], read: str
) -> None:
    for name in [*there, ".bashrc"]:
        bash.file(name, f'echo "{name} $0 $-" >> ~/seen; PS1="{name}> "\n')
    await bash.begun()
    assert bash.read("seen").split()[:2] == [read, "-bash"]
    assert "i" in bash.read("seen").split()[2]
    assert shown_prompt(bash.output) == f"{read}> "


def traced(tmp_path: Path) -> list[str]:
    """What bash runs on its way to the first prompt, a line for each command."""
    how = launch(LoginShell("/bin/bash", "bash"), {}, integrate=True)
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.defpath,
        "SHELLOPTS": "xtrace",
    }
    done = subprocess.run(
        [shutil.which("bash") or "bash", *how.words[1:]],
        env=environment,
        input=b"exit\n",
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    return done.stderr.decode().splitlines()


@pytest.mark.skipif(not Path("/etc/bash.bashrc").exists(), reason="bash has no such file here")
def test_the_systems_bashrc_is_read_once(tmp_path: Path) -> None:
    lines = [one for one in traced(tmp_path) if one.startswith("+")]
    ours = lines.index("+ BASH_ARGV0=-bash")
    assert lines[:ours] != []  # bash has read it by itself
    assert "+ . /etc/profile" in lines[ours:]
    assert [one for one in lines if one.endswith(" . /etc/bash.bashrc")] == []


@pytest.mark.parametrize(
    ("keys", "code"),
    [("logout 3\n", 3), ("exit 4\n", 4), ("\x04", 0)],
    ids=["logout", "exit", "^D"],
)
async def test_bash_reads_its_logout_file_before_a_trap_of_the_persons(
    bash: Desk, keys: str, code: int
) -> None:
    bash.file(".bash_logout", "echo logout >> ~/seen\n")
    bash.rc("trap 'echo \"trap $?\" >> ~/seen' EXIT\n")
    await bash.begun()
    bash.type(keys)
    assert await bash.exit() == code
    assert bash.read("seen") == f"logout\ntrap {code}\n"


async def test_bash_may_be_left_by_a_second_logout_with_stopped_jobs(bash: Desk) -> None:
    await bash.begun()
    await bash.does("sleep 600 &")
    await bash.does("kill -STOP %1")
    # the shell learns of it a moment later
    await bash.does("until [[ -n $(jobs -s) ]]; do :; done")
    await bash.does("logout")
    bash.type("logout\n")
    assert await bash.exit() == 1


@pytest.mark.parametrize("case", ["nowhere", "given", "own .zshenv"])
async def test_zsh_reads_the_persons_files_where_theirs_are(zsh: Desk, case: str) -> None:
    where = {"nowhere": ".", "given": "given", "own .zshenv": "own"}[case]
    if case == "given":
        zsh.variables["ZDOTDIR"] = f"{zsh.base}/given"
    set_own = "export ZDOTDIR=~/own\n" if case == "own .zshenv" else ""
    zsh.file(
        ("given" if case == "given" else ".") + "/.zshenv", f"{set_own}echo zshenv >> ~/seen\n"
    )
    for name in ("zprofile", "zshrc", "zlogin"):
        zsh.file(
            f"{where}/.{name}", f"echo {name} ${{ZDOTDIR-none}} >> ~/seen; typeset -gx > ~/{name}\n"
        )
    await zsh.begun()
    place = {"nowhere": "none", "given": f"{zsh.base}/given", "own .zshenv": f"{zsh.base}/own"}[
        case
    ]
    assert zsh.read("seen").splitlines() == [
        "zshenv",
        f"zprofile {place}",
        f"zshrc {place}",
        f"zlogin {place}",
    ]
    assert "__LEMBAS" not in zsh.read("zshrc")
    await zsh.does("true")
    assert commands(zsh.output) == ["C", "D;0"]


async def test_zsh_with_no_more_startup_files_still_marks(zsh: Desk) -> None:
    zsh.file(".zshenv", "unsetopt rcs\n")
    zsh.file(".zshrc", "touch ~/seen\n")
    await zsh.begun()
    await zsh.does("true")
    assert (commands(zsh.output), (zsh.base / "seen").exists()) == (["C", "D;0"], False)


async def test_a_prompt_that_fish_saves_is_the_persons(fish: Desk) -> None:
    fish.rc("function fish_prompt; echo -n 'mine > '; end\n")
    await fish.begun()
    await fish.nothing("\n")
    await fish.does("funcsave fish_prompt")
    assert "__lembas" not in fish.read(".config/fish/functions/fish_prompt.fish")
    assert shown_prompt(fish.output) == "mine > "


# ── without ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("terminal/open: integration")
async def test_the_person_can_turn_the_marks_off(desk: Desk) -> None:
    answer = await desk.opened(integration=False)
    desk.type("echo he''re; exit 5\n")
    assert await desk.exit() == 5
    assert (answer["shell"], answer["integration"]) == (desk.kind, False)
    assert b"here" in desk.output
    assert marks(desk.output) == []


@pytest.mark.spec("terminal/open: shell")
async def test_another_shell_is_other_and_marks_nothing(short_tmp: Path) -> None:
    scene = Scene(short_tmp, "/bin/sh")
    async with scene.milestones, scene.hub:
        answer = await scene.opened()
        scene.type("echo he''re; exit 5\n")
        assert await scene.exit() == 5
        assert (answer["shell"], answer["integration"]) == ("other", False)
        assert marks(scene.hub.output()) == []
        await scene.aclose()


async def test_a_shell_that_cannot_be_executed_is_named_in_one_sentence(short_tmp: Path) -> None:
    broken = short_tmp / "zsh"
    broken.write_bytes(b"\x7fELF but no program")
    broken.chmod(0o755)
    scene = Scene(short_tmp, str(broken))
    async with scene.milestones, scene.hub:
        await scene.start()
        scene.hub.settings(Settings())
        answer = await scene.hub.ask(OPEN, {"cwd": str(scene.project)})
        assert answer.error == (
            b'{"code":-32602,"message":"your login shell %s could not be started '
            b'(Exec format error); set another one with `chsh`"}' % str(broken).encode()
        )
        assert await scene.ended() == 0


@pytest.mark.parametrize("kind", SHELLS)
def test_a_script_that_is_gone_leaves_a_plain_login_shell(tmp_path: Path, kind: str) -> None:
    how = launch(LoginShell(f"/bin/{kind}", kind), {"A": "1"}, integrate=True, scripts=tmp_path)
    assert (how.words, how.variables, how.integrated) == ([f"-{kind}"], {"A": "1"}, False)


@pytest.mark.parametrize("kind", SHELLS)
def test_scripts_work_in_an_odd_place_that_nobody_may_write_to(tmp_path: Path, kind: str) -> None:
    path = shutil.which(kind)
    if path is None:
        pytest.skip(f"{kind} is not installed")
    place = tmp_path / "it's a \\ place"
    shutil.copytree(SCRIPTS, place)
    for one in [*place.rglob("*"), place]:
        one.chmod(0o555 if one.is_dir() else 0o444)
    home = {"HOME": str(tmp_path), "PATH": os.defpath, "TERM": "xterm-256color"}
    (tmp_path / ".zshrc").write_text("")
    how = launch(LoginShell(path, kind), home, integrate=True, scripts=place)
    check = (
        "functions -q __lembas_prompt"
        if kind == "fish"
        else "typeset -f __lembas_locate >/dev/null"
    )
    done = subprocess.run(
        how.words + (["-i", "-c", check] if kind != "bash" else []),
        executable=path,
        env=how.variables,
        input=f"{check}\nexit $?\n".encode(),
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    for one in [place, *place.rglob("*")]:
        one.chmod(0o755)


# ── on the screen ───────────────────────────────────────────────────────────────────────────────


async def test_a_screen_looks_the_same_with_the_marks(short_tmp: Path) -> None:
    async def screen(base: Path, kind: str, *, integration: bool) -> list[str]:
        async with at(base, kind) as desk:
            desk.rc("PS1=$'first line\\nsecond> '; PROMPT_EOL_MARK=''\n")
            await desk.begun(integration=integration)
            await desk.shows(b"second> ")
            # longer than the screen is wide, then back to its middle, and something put in there
            desk.type("echo " + "word " * 20 + "\x01" + "\x1bf" * 9 + "X")
            desk.type("\x05; echo fin''ished\n")
            await desk.shows(b"finished")
            begun = desk.output.index(b"finished")
            await desk.hub.until(lambda: b"second> " in desk.output[begun:])
            desk.type("printf no-newline; exit\n")
            await desk.exit()
            shown = pyte.Screen(80, 24)
            pyte.ByteStream(shown).feed(desk.output)
            return [line.rstrip() for line in shown.display]

    for kind in ("bash", "zsh"):
        if shutil.which(kind) is None:
            continue
        pictures = []
        for integration in (False, True):
            base = short_tmp / f"{kind}{integration}"
            pictures.append(await screen(base, kind, integration=integration))
        plain, marked = ([line.replace("logout", "exit") for line in one] for one in pictures)
        assert marked == plain
