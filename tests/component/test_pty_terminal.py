"""A real pty process with a real shell, against a hub's socket."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from lembasd.device.paths import Paths
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Remote, Settings, TerminalState
from lembasd.protocol.hello import TerminalHello
from lembasd.protocol.spawn import Assignment
from tests.support.daemon import gone
from tests.support.milestones import Milestones
from tests.support.terminal_hub import TerminalHub

TERMINAL = "term_000000000000"
#: be the pty process as a child of a zygote is: its own session, signals as a new process has them
_RUN = """
import sys, msgspec
from lembasd.protocol.spawn import Assignment
from lembasd.pty.main import main
sys.exit(main(msgspec.json.decode(sys.argv[1], type=Assignment)))
"""
OPEN = "_lembas/terminal/open"
INPUT = "_lembas/terminal/input"
EXIT = "_lembas/terminal/exit"


class Scene:
    """A pty process and its hub."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.paths = Paths(config=base / "config", state=base / "state", run=base / "run")
        self.paths.make()
        self.project = base / "p"
        self.project.mkdir()
        self.remote = Remote(enabled=True, terminal=True, roots=[str(base)])
        self.milestones = Milestones(base / "m")
        self.hub = TerminalHub(self.paths)
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, *, link: bool = False) -> None:
        self.process = self._spawn(link)
        await self.hub.until(lambda: bool(self.hub.hellos))

    def _spawn(self, link: bool) -> "subprocess.Popen[bytes]":
        assignment = Assignment(spawn=5, role="pty", channel=TERMINAL, link=link)
        environment = {
            **os.environ,
            **self.milestones.environment,
            "LEMBAS_HOME": str(self.base),
            "NOTIFY_SOCKET": "/run/none",
            "HOME": str(self.base),  # a person's own startup files are not the subject
        }
        return subprocess.Popen(
            [sys.executable, "-c", _RUN, msgspec.json.encode(assignment).decode()],
            env=environment,
            start_new_session=True,
        )

    async def opened(self, **params: Any) -> dict[str, Any]:
        """A process with a shell, and client 1 attached to it."""
        await self.start()
        self.hub.settings(Settings())
        self.hub.attach(1)
        answer = await self.hub.ask(OPEN, {"cwd": str(self.project), **params})
        assert not answer.error, answer.error
        value: dict[str, Any] = msgspec.json.decode(answer.result)
        return value

    def type(self, text: str) -> None:
        self.hub.notify(INPUT, {"terminalId": TERMINAL, "data": text.encode()})

    async def shows(self, text: bytes, *, to: int = 1) -> None:
        await self.hub.until(lambda: text in self.hub.output(to=to))

    async def exit(self) -> int | None:
        await self.hub.until(lambda: bool(self.hub.said(EXIT)))
        ((_, message),) = self.hub.said(EXIT)
        code: int | None = msgspec.json.decode(message.params)["code"]
        return code

    async def ended(self) -> int:
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, 15)


@pytest.fixture
async def scene(short_tmp: Path) -> AsyncIterator[Scene]:
    one = Scene(short_tmp)
    async with one.milestones, one.hub:
        yield one
        if one.process is not None:
            family = []
            with suppress(psutil.NoSuchProcess):
                family = psutil.Process(one.process.pid).children(recursive=True)
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            one.process.kill()
            await one.ended()


async def test_it_says_hello_with_its_terminal_and_its_spawn_number(scene: Scene) -> None:
    await scene.start()
    (hello,) = scene.hub.hellos
    assert (hello.role, hello.spawn) == ("pty", 5)
    assert hello.terminal == TerminalHello(terminal_id=TERMINAL)


@pytest.mark.spec("_lembas/terminal/open", "terminal/open: cols and rows")
async def test_open_answers_with_place_and_size_and_tells_its_state(scene: Scene) -> None:
    result = await scene.opened(cols=7, rows=1000)
    assert result == {
        "terminalId": TERMINAL,
        "cwd": str(scene.project),
        "cols": 20,
        "rows": 300,
    }
    started = await scene.milestones.wait("pty.shell_started")
    (state,) = [one for one in scene.hub.messages if one.kind == kinds.STATE]
    said = msgspec.json.decode(state.payload, type=TerminalState)
    assert (said.shell_pid, said.cwd, said.cols) == (started["shell_pid"], str(scene.project), 20)


@pytest.mark.spec("_lembas/terminal/input", "_lembas/terminal/output")
async def test_what_is_typed_runs_and_its_output_comes_back(scene: Scene) -> None:
    await scene.opened()
    scene.type("echo $((6*7))-answer; pwd\n")
    await scene.shows(b"42-answer")
    await scene.shows(str(scene.project).encode())


@pytest.mark.spec("_lembas/terminal/exit")
async def test_the_exit_code_comes_after_the_last_output(scene: Scene) -> None:
    await scene.opened()
    scene.type("stty -echo; printf 'la''st'; exit 3\n")
    assert await scene.exit() == 3
    assert await scene.ended() == 0
    assert scene.hub.output().endswith(b"last") or b"last" in scene.hub.output()[-200:]
    assert scene.hub.messages[-1].payload == scene.hub.said(EXIT)[0][0].payload


async def test_a_shell_killed_by_a_signal_exits_with_128_and_its_number(scene: Scene) -> None:
    await scene.opened()
    scene.type("kill -KILL $$\n")
    assert await scene.exit() == 137


async def test_twenty_megabytes_arrive_byte_for_byte(scene: Scene) -> None:
    data = os.urandom(15_000_000).hex().encode()[:20_000_000]
    (scene.project / "data").write_bytes(data)
    await scene.opened()
    scene.type("stty -echo -opost; PS1=; printf 'beg''in'; cat data; exec printf 'e''nd'\n")
    assert await scene.exit() == 0
    output = scene.hub.output()
    start = output.index(b"begin") + len(b"begin")
    assert output[start : start + len(data)] == data
    assert output[start + len(data) :] == b"end"


async def test_output_of_a_shell_that_ends_at_once_is_whole_for_a_slow_viewer(scene: Scene) -> None:
    data = b"x" * 2_000_000
    (scene.project / "data").write_bytes(data)
    await scene.opened()
    scene.hub.crediting = False
    scene.type("stty -echo -opost; printf 'beg''in'; exec cat data\n")
    await scene.shows(b"begin" + b"x" * 150_000)
    held = sum(len(one.payload) for one in scene.hub.messages if one.delta)
    assert held < 700_000
    scene.hub.crediting = True
    scene.hub.credit(held)
    assert await scene.exit() == 0
    output = scene.hub.output()
    assert output[output.index(b"begin") + 5 :] == data


@pytest.mark.spec("_lembas/terminal/resize")
async def test_the_latest_of_many_resizes_is_the_size(scene: Scene) -> None:
    await scene.opened()
    for cols in (90, 100, 9999):
        resize(scene, cols)
    scene.type("stty size\n")
    await scene.shows(b"40 500")


async def test_a_resize_is_told_to_what_is_in_the_foreground(scene: Scene) -> None:
    await scene.opened()
    scene.type("trap 'echo resi''zed' WINCH; echo rea''dy\n")
    await scene.shows(b"ready")
    resize(scene, 90)
    scene.type("\n")
    await scene.shows(b"resized")


def resize(scene: Scene, cols: int) -> None:
    scene.hub.notify("_lembas/terminal/resize", {"terminalId": TERMINAL, "cols": cols, "rows": 40})


async def test_a_shell_has_default_signals_a_controlling_terminal_and_a_clean_environment(
    scene: Scene,
) -> None:
    await scene.opened()
    scene.type("stty -echo; yes | head -n1; tty; env; grep SigIgn /proc/self/status; echo do''ne\n")
    await scene.shows(b"done")
    output = scene.hub.output()
    assert b"Broken pipe" not in output
    assert b"/dev/pts/" in output
    assert ignored_signals(output) & _STANDARD_SIGNALS == 0
    assert b"TERM=xterm-256color" in output
    assert b"COLORTERM=truecolor" in output
    for name in (b"LEMBASD_TEST", b"NOTIFY_SOCKET"):
        assert name not in output


#: bits 0 to 30 for signals 1 to 31; what a caller of ours ignores above them, a C library may hide from us
_STANDARD_SIGNALS = (1 << 31) - 1


def ignored_signals(output: bytes) -> int:
    """The mask that /proc says the shell's children ignore."""
    return int(output.split(b"SigIgn:\t")[1][:16], 16)


async def test_an_interrupt_key_ends_what_runs_and_not_the_terminal(scene: Scene) -> None:
    await scene.opened()
    scene.type("echo star''ted; sleep 600\n")
    await scene.shows(b"started")
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    await until_runs(shell, "sleep")
    scene.type("\x03")
    scene.type("echo still he''re\n")
    await scene.shows(b"still here")


async def until_runs(shell: int, name: str) -> psutil.Process:
    """The shell's child of this name, as soon as it is there."""
    async with asyncio.timeout(10):
        while True:
            for child in psutil.Process(shell).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # the shell's startup has children of its own
                    if child.name() == name:
                        return child
            await asyncio.sleep(0)


@pytest.mark.spec("_lembas/terminal/close")
async def test_close_hangs_up_the_shell_and_what_is_in_the_foreground(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("sleep 600\n")
    sleeper = await until_runs(shell, "sleep")
    scene.hub.notify("_lembas/terminal/close", {"terminalId": TERMINAL})
    assert await scene.exit() == 128 + signal.SIGHUP
    assert await scene.ended() == 0
    await gone(sleeper.pid)
    assert not psutil.pid_exists(shell)


async def test_a_shell_that_ignores_the_hangup_is_killed(scene: Scene) -> None:
    await scene.opened()
    scene.type("trap '' HUP; echo igno''red\n")
    await scene.shows(b"ignored")
    scene.hub.stop()
    assert await scene.exit() == 128 + signal.SIGKILL
    assert await scene.ended() == 0


async def test_a_killed_pty_process_takes_its_shell_with_it(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("sleep 600\n")
    sleeper = await until_runs(shell, "sleep")
    assert scene.process is not None
    scene.process.kill()
    await scene.ended()
    await gone(sleeper.pid)
    await gone(shell)


async def test_a_viewer_that_attaches_later_is_shown_what_was_there(scene: Scene) -> None:
    await scene.opened()
    scene.type("echo ear''lier\n")
    await scene.shows(b"earlier")
    scene.hub.detach(1)
    scene.hub.attach(2)
    await scene.shows(b"earlier", to=2)
    assert scene.hub.output(to=2).startswith(b"\x1bc")
    scene.hub.notify(INPUT, {"terminalId": TERMINAL, "data": b"echo la''ter\n"})
    await scene.shows(b"later", to=2)


async def test_with_nobody_looking_a_flood_is_read_and_not_sent(scene: Scene) -> None:
    await scene.opened()
    scene.hub.crediting = False
    scene.type(
        "stty -echo; echo go''ne; read x; head -c 3000000 /dev/zero | tr '\\0' y; touch done\n"
    )
    await scene.shows(b"gone")
    scene.hub.detach(1)
    scene.type("\n")
    scene.type("exit 0\n")
    assert await scene.ended() == 0
    assert (scene.project / "done").exists()
    assert b"yy" not in scene.hub.output()


async def test_a_local_terminal_is_adopted_by_the_next_hub(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    await scene.hub.__aexit__(None, None, None)
    async with TerminalHub(scene.paths) as second:
        await second.until(lambda: bool(second.hellos))
        terminal = second.hellos[0].terminal
        assert terminal is not None
        assert (terminal.shell_pid, terminal.cwd) == (shell, str(scene.project))
        second.attach(7)
        second.notify(INPUT, {"terminalId": TERMINAL, "data": b"echo ag''ain\n"})
        await second.until(lambda: b"again" in second.output(to=7))
    await scene.hub.__aenter__()


@pytest.mark.spec("terminals close with the link")
async def test_the_links_terminal_hangs_up_with_its_hub(scene: Scene) -> None:
    await scene.start(link=True)
    scene.hub.settings(
        Settings(remote=Remote(enabled=True, terminal=True, roots=[str(scene.project)]))
    )
    scene.hub.attach(1)
    answer = await scene.hub.ask(OPEN, {})
    assert msgspec.json.decode(answer.result)["cwd"] == str(scene.project)
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    await scene.hub.__aexit__(None, None, None)
    assert await scene.ended() == 0
    assert not psutil.pid_exists(shell)
    await scene.hub.__aenter__()


async def test_a_marker_that_the_stop_was_meant_ends_a_terminal_without_a_hub(scene: Scene) -> None:
    await scene.opened()
    scene.paths.stopping.touch()
    await scene.hub.__aexit__(None, None, None)
    assert await scene.ended() == 0
    await scene.hub.__aenter__()


@pytest.mark.parametrize(
    ("remote", "cwd", "reason"),
    [
        (Remote(enabled=True, roots=["/tmp"]), "/tmp", "terminal_off"),
        (Remote(enabled=True, terminal=True, roots=["/usr/bin"]), "/usr", "folder"),
        (Remote(enabled=True, terminal=True, roots=["/usr"]), "/usr/none", "folder"),
        (Remote(terminal=True, roots=["/usr"]), "/usr", "remote_off"),
    ],
)
@pytest.mark.spec("terminal/open: cwd inside the roots")
async def test_the_link_is_refused_outside_its_limits(
    scene: Scene, remote: Remote, cwd: str, reason: str
) -> None:
    await scene.start(link=True)
    scene.hub.settings(Settings(remote=remote))
    answer = await scene.hub.ask(OPEN, {"cwd": cwd})
    error = msgspec.json.decode(answer.error)
    assert (error["code"], error["data"]) == (-32602, {"reason": reason})
    assert await scene.ended() == 0


async def test_garbage_and_unknown_methods_are_answered_and_the_terminal_stays(
    scene: Scene,
) -> None:
    await scene.opened()
    unknown = await scene.hub.ask("_lembas/terminal/none", {})
    wrong = await scene.hub.ask(INPUT, {"terminalId": TERMINAL, "data": 5})
    codes = [msgspec.json.decode(one.error)["code"] for one in (unknown, wrong)]
    assert codes == [-32601, -32602]
    scene.type("echo go''od\n")
    await scene.shows(b"good")


async def test_a_background_job_that_keeps_the_terminal_does_not_keep_the_exit(
    scene: Scene,
) -> None:
    await scene.opened()
    scene.type("trap '' HUP; (sleep 600 &) ; exit 4\n")
    assert await scene.exit() == 4


async def test_a_refused_hello_ends_the_process(scene: Scene) -> None:
    scene.hub.refuse = "not welcome"
    await scene.start()
    assert await scene.ended() == 0
