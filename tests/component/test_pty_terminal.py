"""A real pty process with a real shell, against a hub's socket."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import psutil
import pytest

from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Remote, Settings, TerminalState
from lembasd.protocol.hello import TerminalHello
from lembasd.pty.late_jobs import YOUNG_S
from tests.support.daemon import gone
from tests.support.terminal_hub import TerminalHub
from tests.support.terminal_scene import EXIT, INPUT, OPEN, TERMINAL, Scene


@pytest.fixture
async def scene(short_tmp: Path) -> AsyncIterator[Scene]:
    one = Scene(short_tmp, "/bin/bash")
    async with one.milestones, one.hub:
        yield one
        await one.aclose()


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
        "shell": "bash",
        "integration": True,
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
async def test_keys_and_output_go_as_they_are_to_a_client_that_asked_for_it(scene: Scene) -> None:
    await scene.start()
    scene.hub.type(b"too early\n")  # nothing is open yet
    scene.hub.settings(Settings())
    scene.hub.attach(1, frames=True, flow=True)
    await scene.hub.ask(OPEN, {"cwd": str(scene.project)})
    scene.hub.type(b"stty -echo; printf '\\377\\n%s-%s\\n' en d\n")
    await scene.shows(b"\xff\r\nen-d")
    output = [one for one in scene.hub.messages if one.kind == kinds.OUTPUT]
    # the first piece told the size in a message; each says where it begins
    shown = scene.hub.output()
    assert all(shown[one.offset :].startswith(one.payload) for one in output)
    assert output[-1].offset + len(output[-1].payload) == len(shown)


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


async def test_a_resize_to_the_same_size_has_the_foreground_draw_itself_anew(scene: Scene) -> None:
    await scene.opened(cols=90, rows=40)
    scene.type("trap 'echo resi''zed $COLUMNS' WINCH; echo rea''dy\n")
    await scene.shows(b"ready")
    resize(scene, 90)
    scene.type("\n")
    await scene.shows(b"resized 90")


async def test_a_storm_of_resizes_in_a_flood_ends_with_the_latest_and_loses_nothing(
    scene: Scene,
) -> None:
    await scene.opened()
    scene.type("stty -echo; echo beg''in; seq 100000; stty size; exit\n")
    await scene.shows(b"begin")
    for number in range(1000):
        resize(scene, 20 + number % 480)
    resize(scene, 123)
    assert await scene.exit() == 0
    output = scene.hub.output()
    numbers = output[output.rindex(b"begin\r\n") + 7 :].split(b"\r\n")
    assert numbers[:100000] == [str(number).encode() for number in range(1, 100001)]
    assert numbers[100000] == b"40 123"


def resize(scene: Scene, cols: int) -> None:
    scene.hub.notify("_lembas/terminal/resize", {"terminalId": TERMINAL, "cols": cols, "rows": 40})


async def test_a_shell_has_default_signals_a_controlling_terminal_and_a_clean_environment(
    scene: Scene,
) -> None:
    scene.variables = {
        "VIRTUAL_ENV": "/service/venv",
        "PATH": f"/service/venv/bin:{os.environ['PATH']}",
        "INVOCATION_ID": "of the service",
        "JOURNAL_STREAM": "of the service",
        "LISTEN_FDS": "3",
        "LEMBAS_TOKEN": "of the service",
        "TMUX": "of another terminal",
        "SHLVL": "7",
    }
    scene.file(".bash_profile", "env > ~/env\n")
    await scene.opened()
    scene.type(
        "stty -echo; yes | head -n1; tty; grep Sig /proc/self/status; ps -o tpgid= -o pgid= $$\n"
    )
    scene.type("cat ~/env; echo do''ne\n")
    await scene.shows(b"done")
    output = scene.hub.output()
    assert b"Broken pipe" not in output
    assert b"/dev/pts/" in output
    assert b"SigBlk:\t0000000000000000" in output
    assert ignored_signals(output) & _STANDARD_SIGNALS == 0
    assert b"TERM=xterm-256color" in output
    assert b"COLORTERM=truecolor" in output
    assert b"SHLVL=1\r\n" in output
    foreign = (
        b"LEMBASD_",
        b"NOTIFY_SOCKET",
        b"of the service",
        b"of another",
        b"LISTEN_",
        b"/service",
    )
    assert [one for one in foreign if one in output] == []


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
    await scene.until_child(shell, "sleep")
    scene.type("\x03")
    scene.type("echo still he''re\n")
    await scene.shows(b"still here")


async def test_an_interrupt_key_is_not_behind_what_was_pasted_into_a_program_that_does_not_read(
    scene: Scene,
) -> None:
    await scene.opened()
    scene.type("echo star''ted; sleep 600\n")
    await scene.shows(b"started")
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    await scene.until_child(shell, "sleep")
    for _ in range(40):
        scene.type("echo past''ed\n" * 2000)
    scene.type("\x03")
    # the interrupt drops what is typed behind it as well, until it is heard
    await scene.shows(b"^C")
    scene.type("echo still he''re\n")
    await scene.shows(b"still here")
    assert b"pasted" not in scene.hub.output()


async def test_a_shell_that_was_stopped_goes_on_at_the_next_key(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("suspend -f; echo awa''ke\n")
    async with asyncio.timeout(10):
        while True:
            if psutil.Process(shell).status() == psutil.STATUS_STOPPED:
                break
            await asyncio.sleep(0)
    scene.type("\n")
    await scene.shows(b"awake")


@pytest.mark.spec("_lembas/terminal/close")
async def test_close_hangs_up_the_shell_and_what_is_in_the_foreground(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("sleep 600\n")
    sleeper = await scene.until_child(shell, "sleep")
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


async def test_a_shell_that_forgets_the_hangup_is_told_again(scene: Scene) -> None:
    await scene.opened()
    scene.type("trap 'trap - HUP' HUP; echo rea''dy; read x\n")
    await scene.shows(b"ready")
    scene.hub.stop()
    assert await scene.exit() == 128 + signal.SIGHUP
    assert await scene.ended() == 0


async def test_what_comes_to_the_foreground_after_the_hangup_is_killed_too(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("trap 'trap \"\" HUP; sleep 600' HUP; echo rea''dy; read x\n")
    await scene.shows(b"ready")
    scene.hub.notify("_lembas/terminal/close", {"terminalId": TERMINAL})
    sleeper = await scene.until_child(shell, "sleep")
    assert await scene.exit() == 128 + signal.SIGKILL
    assert await scene.ended() == 0
    await gone(sleeper.pid)


async def test_a_job_that_a_shell_begins_while_it_is_hung_up_is_hung_up_too(scene: Scene) -> None:
    await scene.opened()
    scene.type("trap 'sleep 600 & disown; echo $! > late; exit' HUP; echo rea''dy; read x\n")
    await scene.shows(b"ready")
    scene.hub.notify("_lembas/terminal/close", {"terminalId": TERMINAL})
    await scene.exit()
    assert await scene.ended() == 0
    await gone(int((scene.project / "late").read_text()))


async def test_a_job_that_was_kept_from_the_hang_up_stays(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("sleep 600 & disown\n")
    sleeper = await scene.until_child(shell, "sleep")
    scene.type(f"sleep {YOUNG_S + 0.1}; echo o''ld\n")
    await scene.shows(b"old")
    scene.hub.notify("_lembas/terminal/close", {"terminalId": TERMINAL})
    assert await scene.exit() == 128 + signal.SIGHUP
    assert await scene.ended() == 0
    assert sleeper.is_running()
    sleeper.kill()


async def test_a_killed_pty_process_takes_its_shell_with_it(scene: Scene) -> None:
    await scene.opened()
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    scene.type("sleep 600\n")
    sleeper = await scene.until_child(shell, "sleep")
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
