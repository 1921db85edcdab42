"""What a real login shell says, and what its startup files cannot do to a session."""

import asyncio
import os
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lembasd.device import process_tree, runtime
from lembasd.device.person import LoginShell, Person
from lembasd.engine.native.login_environment import INTERACTIVE_S, PLAIN_S, LoginEnvironment
from lembasd.protocol.ids import SESSION_RANDOM_BYTES, session_id
from tests.support.subreaper import no_subreaper

#: its own for each run: runs side by side must not find each other's processes by their marker
SESSION = session_id(os.urandom(SESSION_RANDOM_BYTES))
BASH = LoginShell("/bin/bash", "bash")


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    runtime.become_subreaper()
    yield
    no_subreaper()


class Scene:
    """A person with a home of their own, and the run directory of their install."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.run = base / "run"
        self.home.mkdir()
        self.run.mkdir()
        self.shell = BASH
        self.waits_s = (INTERACTIVE_S, PLAIN_S)

    def person(self, _variables: Mapping[str, str]) -> Person:
        return Person("kim", str(self.home), self.shell)

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def worker(self) -> LoginEnvironment:
        return LoginEnvironment(SESSION, 1, lambda: self.run, self.person, waits_s=self.waits_s)

    async def current(self) -> dict[str, str]:
        return await self.worker().current()

    def asked(self) -> int:
        """How often a shell was started: each adds a line."""
        path = self.home / "asked"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def scene(short_tmp: Path) -> Scene:
    return Scene(short_tmp)


async def test_a_login_shells_variables_are_there_and_its_own_state_is_not(scene: Scene) -> None:
    scene.write(".profile", '. ~/.bashrc; export FROM_PROFILE=1; PATH="$HOME/bin:$PATH"\n')
    scene.write(
        ".bashrc",
        "case $- in *i*) ;; *) return ;; esac\n"
        "export NVM_DIR=~/.nvm LANG=de_DE.UTF-8 TEXT=$'two\\nlines' NOT_UTF8=$'\\xff'\n"
        "hello() { echo hello; }; export -f hello; echo welcome\n",
    )
    found = await scene.current()
    assert {name: found.get(name) for name in ("FROM_PROFILE", "NVM_DIR", "LANG", "TEXT")} == {
        "FROM_PROFILE": "1",
        "NVM_DIR": f"{scene.home}/.nvm",
        "LANG": "de_DE.UTF-8",
        "TEXT": "two\nlines",
    }
    assert found["PATH"].startswith(f"{scene.home}/bin:")
    assert (found["HOME"], found["USER"], found["SHELL"]) == (str(scene.home), "kim", "/bin/bash")
    assert (found["NOT_UTF8"], "hello" in found["BASH_FUNC_hello%%"]) == ("\udcff", True)
    assert not {"PWD", "OLDPWD", "SHLVL", "_"} & set(found)


async def test_a_profile_that_leaves_bashrc_out_hides_nothing(scene: Scene) -> None:
    scene.write(".bash_profile", "export FROM_PROFILE=1\n")
    scene.write(".bashrc", "export FROM_BASHRC=1\n")
    found = await scene.current()
    assert (found.get("FROM_PROFILE"), found.get("FROM_BASHRC")) == ("1", "1")


async def test_nothing_of_the_service_is_in_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEMBASD_RUN", "NOTIFY_SOCKET", "INVOCATION_ID", "LISTEN_FDS", "LEMBAS_TOKEN"):
        monkeypatch.setenv(name, "secret")
    scene.write(".profile", "env > ~/seen\n")
    found = await scene.current()
    assert "secret" not in found.values()
    assert "secret" not in (scene.home / "seen").read_text()
    assert not [name for name in found if name.startswith(("LEMBAS_", "LEMBASD_"))]


async def test_it_is_asked_once_for_all_workers_and_kept_from_others(scene: Scene) -> None:
    scene.write(".profile", "echo asked >> ~/asked; export A=1\n")
    all_of_them = await asyncio.gather(*(scene.current() for _ in range(12)))
    assert all(found == all_of_them[0] and found["A"] == "1" for found in all_of_them)
    assert scene.asked() == 1
    assert stat.S_IMODE((scene.run / "environment").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [".profile", ".bashrc", ".config/environment.d/x.conf"])
async def test_it_is_asked_again_when_a_startup_file_changes(scene: Scene, name: str) -> None:
    scene.write(".profile", ". ~/.bashrc; echo asked >> ~/asked\n")
    scene.write(".bashrc", "export A=1\n")
    worker = scene.worker()
    await worker.current()
    path = scene.home / name
    scene.write(name, (path.read_text() if path.exists() else "") + "export A=22\n")
    expected = "1" if name.endswith(".conf") else "22"
    assert ((await worker.current())["A"], (await scene.current())["A"]) == (expected, expected)
    assert scene.asked() == 2


async def test_without_a_run_directory_it_is_asked_for_each(scene: Scene) -> None:
    scene.run.rmdir()
    scene.write(".profile", "echo asked >> ~/asked; export A=1\n")
    worker = scene.worker()
    assert ((await worker.current())["A"], (await worker.current())["A"]) == ("1", "1")
    assert (scene.asked(), scene.run.exists()) == (1, False)


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"\x93\x01\x02\x03"], ids=["empty", "junk", "other"]
)
async def test_a_shared_answer_that_cannot_be_read_is_taken_anew(
    scene: Scene, content: bytes
) -> None:
    (scene.run / "environment").write_bytes(content)
    (scene.run / "environment").chmod(0o600)
    scene.write(".profile", "export A=1\n")
    assert (await scene.current())["A"] == "1"


async def test_an_answer_that_others_could_have_written_is_not_believed(scene: Scene) -> None:
    scene.write(".profile", "echo asked >> ~/asked; export A=1\n")
    await scene.current()
    (scene.run / "environment").chmod(0o666)
    assert (await scene.current())["A"] == "1"
    assert scene.asked() == 2


# ── startup files that do something else ────────────────────────────────────────────────────────


@pytest.fixture
def hasty(scene: Scene) -> None:
    """The waits of a shell that hangs, made short."""
    scene.waits_s = (1.0, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "sleep 1000\n",
        "exec sleep 1000\n",
        "trap '' TERM HUP INT; while :; do sleep 1000; done\n",
        "(setsid sleep 1000 &) ; sleep 1000\n",
        "exit 0\n",
        "exec false\n",
        "kill -9 $$\n",
        "yes\n",
        "exit 3\n",
        "exec >/dev/null 2>&1\n",
    ],
)
async def test_a_shell_that_gives_nothing_costs_one_wait_and_a_warning(
    scene: Scene, hasty: None, text: str
) -> None:
    before = process_tree.children(os.getpid())
    scene.write(".profile", f"echo asked >> ~/asked\n{text}")
    with capture_logs() as logs:
        found = await scene.current()
        again = await scene.current()
    assert found == again
    assert found["PATH"] == os.environ["PATH"]
    assert {one["event"] for one in logs} == {"login_shell_silent"}
    assert (len(logs), scene.asked()) == (2, 2)
    assert process_tree.children(os.getpid()) == before
    assert process_tree.by_marker(SESSION) == []


@pytest.mark.parametrize(
    "text",
    [
        "read answer\n",
        "cat\n",
        "head -c 1000000 /dev/zero | tr '\\0' x\n",
        "echo error >&2; false\n",
        "sleep 1000 &\n",
        "(setsid sleep 1000 &)\n",
        "set -eu\n",
        "cd /\n",
        "if then fi\n",
        "stty sane; tty; tput clear\n",
        '[ -n "$PS1" ] && exec no-such-multiplexer\n',
    ],
)
async def test_what_startup_files_do_beside_it_is_no_matter(
    scene: Scene, hasty: None, text: str
) -> None:
    before = process_tree.children(os.getpid())
    scene.write(".profile", f"export A=1\n{text}")
    assert (await scene.current()).get("A") == "1"
    assert process_tree.children(os.getpid()) == before
    assert process_tree.by_marker(SESSION) == []


async def test_files_that_only_an_interactive_shell_falls_over_are_read_without_it(
    scene: Scene, hasty: None
) -> None:
    scene.write(".profile", "export A=1; case $- in *i*) exec sleep 1000 ;; esac\n")
    assert (await scene.current()).get("A") == "1"


async def test_cancelling_ends_the_shell(scene: Scene) -> None:
    before = process_tree.children(os.getpid())
    scene.write(".profile", "(setsid sleep 1000 &)\nmkfifo f 2>/dev/null; read x < f\n")
    asking = asyncio.create_task(scene.current())
    async with asyncio.timeout(10):
        while not (scene.home / "f").exists():
            await asyncio.to_thread(os.sched_yield)
    asking.cancel()
    assert isinstance((await asyncio.gather(asking, return_exceptions=True))[0], BaseException)
    assert process_tree.children(os.getpid()) == before


async def test_a_person_without_a_shell_has_the_services_environment(scene: Scene) -> None:
    scene.shell = LoginShell("/none/bash", "bash")
    assert (await scene.current())["PATH"] == os.environ["PATH"]


async def test_a_home_that_is_gone_is_no_matter(scene: Scene) -> None:
    scene.home.rmdir()
    assert (await scene.current())["PATH"] == os.environ["PATH"]


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="needs /bin/sh")
async def test_a_plain_sh_is_asked_too(scene: Scene) -> None:
    scene.shell = LoginShell("/bin/sh", "other")
    scene.write(".profile", "export A=1\n")
    assert (await scene.current()).get("A") == "1"


# ── the ssh agent ───────────────────────────────────────────────────────────────────────────────


async def test_an_agent_that_was_started_for_the_question_is_not_given(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/the/services")
    listen = "import socket,time;s=socket.socket(socket.AF_UNIX);s.bind('agent');s.listen();print(1,flush=True);time.sleep(99)"
    scene.write(
        ".profile",
        f'export SSH_AUTH_SOCK=$HOME/agent\nexec 3< <(exec {sys.executable} -c "{listen}"); '
        "read ready <&3; export SSH_AGENT_PID=$!\n",
    )
    found = await scene.current()
    assert found.get("SSH_AUTH_SOCK") == "/run/the/services"
    assert "SSH_AGENT_PID" not in found


async def test_an_agent_that_is_gone_is_asked_for_again(scene: Scene) -> None:
    scene.write(".profile", "echo asked >> ~/asked; export SSH_AUTH_SOCK=$(cat ~/agents)\n")
    for name in ("a", "b"):
        with socket.socket(socket.AF_UNIX) as agent:
            path = scene.home / name
            agent.bind(str(path))
            scene.write("agents", str(path))
            assert (await scene.current())["SSH_AUTH_SOCK"] == str(path)
            assert (await scene.current())["SSH_AUTH_SOCK"] == str(path)
        path.unlink()
    assert scene.asked() == 2
