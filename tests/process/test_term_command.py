"""`lembas term` in a real terminal, with the whole service running."""

import re
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from tests.support.daemon import Install
from tests.support.real_terminal import RealTerminal

pytestmark = pytest.mark.process

LEAVE = b"\x1dd"


@pytest.fixture
async def install(zygote_install: Install) -> Install:
    """A hub whose shells have a prompt that tests can wait for, and read no start-up files."""
    install = zygote_install
    install.environment |= {"SHELL": "/bin/bash", "TERM": "xterm-256color", "PS1": "$ "}
    (install.base / ".bash_profile").write_text("PS1='ready> '\n")
    return install


@pytest.fixture
async def terminal(install: Install) -> AsyncIterator[RealTerminal]:
    async with RealTerminal(install) as one:
        yield one


async def opened(install: Install, terminal: RealTerminal, *args: str) -> str:
    """The id of a terminal that was opened in this one."""
    terminal.run("term", "open", "--cwd", str(install.project), *args)
    attached = await install.milestones.wait("term.attached")
    await terminal.shows("ready>")
    return str(attached["terminal_id"])


async def test_a_shell_opens_here_and_its_exit_code_is_the_commands(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    await opened(install, terminal)
    assert terminal.is_raw
    await terminal.shows("Ctrl-] d leaves this terminal, and it goes on")
    terminal.type("pwd; stty size; exit 7\r")
    await terminal.shows(str(install.project))
    await terminal.shows("24 80")
    assert await terminal.code() == 7
    assert terminal.modes() == terminal.before


async def test_without_a_hub_one_is_started_and_that_is_said(
    install: Install, terminal: RealTerminal
) -> None:
    await opened(install, terminal)
    await terminal.shows("lembasd was not running; it is started (`lembasd stop` ends it)")
    terminal.type(LEAVE)
    assert await terminal.code() == 0
    assert (await install.status())["terminals"]
    await install.stop()


async def test_the_terminal_is_left_and_attached_again_by_the_beginning_of_its_id(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    one = await opened(install, terminal)
    terminal.type("echo be''fore\r")
    await terminal.shows("before")
    terminal.type(b"\x1d")
    terminal.type(b"d")
    assert await terminal.code() == 0
    await terminal.shows(f"detached; `lembas term attach {one}` goes on")
    assert terminal.modes() == terminal.before
    async with RealTerminal(install, 100, 30) as other:
        other.run("term", "attach", one.removeprefix("term_")[:6])
        await other.shows("before")
        other.type("stty size; exit 3\r")
        await other.shows("30 100")
        assert await other.code() == 3


async def test_a_resize_reaches_the_shell(install: Install, terminal: RealTerminal) -> None:
    await install.start_hub()
    await opened(install, terminal)
    terminal.type("until [ \"$(stty size)\" = '20 90' ]; do :; done; echo re''sized\r")
    terminal.resize(90, 20)
    await terminal.shows("resized")
    terminal.type("exit\r")
    assert await terminal.code() == 0


async def test_the_first_detach_key_twice_types_it_once(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    await opened(install, terminal, "--detach-keys", "ctrl-a,x")
    terminal.type("cat -v\r")
    terminal.type(b"[\x01\x01]\r")
    await terminal.shows("[^A]")
    terminal.type(b"\x01x")
    assert await terminal.code() == 0


async def test_a_full_screen_program_is_drawn_again_and_its_screen_is_left(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    one = await opened(install, terminal)
    terminal.type("printf '%s\\n' {1..200} > n; less n\r")
    await terminal.shows("\nn ")
    terminal.type("G")
    await terminal.shows("(END)")
    terminal.type(LEAVE)
    assert await terminal.code() == 0
    assert b"\x1b[?1049l" in terminal.output[-400:]
    async with RealTerminal(install, 80, 24) as other:
        other.run("term", "attach", one)
        await other.shows("(END)")
        await other.shows("200")
        # less loses a key that comes while it takes in its window's size
        await other.press_until("q", "ready>")
        other.type("\x15exit\r")
        assert await other.code() == 0


async def test_a_hub_that_dies_is_said_in_the_title_and_nothing_is_lost(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    await opened(install, terminal)
    terminal.type("echo wa''its; read go; seq -f 'n%05g' 20000; echo do''ne\r")
    await terminal.shows("waits")
    await install.kill_hub()
    await install.milestones.wait("term.hub_lost")
    await terminal.titled("lembasd is gone; this waits for its return · Ctrl-] d leaves")
    # typed meanwhile
    terminal.type("\r")
    await install.start_hub()
    await install.milestones.wait("term.reattached")
    await terminal.shows("done")
    await terminal.titled("· Ctrl-] d leaves")
    assert re.findall(rb"n\d{5}", terminal.output) == [b"n%05d" % n for n in range(1, 20001)]
    terminal.type("exit\r")
    assert await terminal.code() == 0


async def test_a_hub_that_dies_in_a_flood_loses_none_of_it(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    await opened(install, terminal)
    terminal.type("seq -f 'n%06g' 100000; echo do''ne\r")
    await terminal.shows("n000")
    terminal.read(on=False)
    await install.kill_hub()
    await install.milestones.wait("term.hub_lost")
    terminal.read(on=True)
    await install.start_hub()
    await terminal.shows("done")
    said = re.sub(rb"\x1b\]2;[^\x07]*\x07|\x1b\[2[23];2t", b"", terminal.output)
    assert re.findall(rb"n\d{6}", said) == [b"n%06d" % n for n in range(1, 100001)]
    terminal.type("exit\r")
    assert await terminal.code() == 0


async def test_whoever_waits_for_a_hub_may_leave(install: Install, terminal: RealTerminal) -> None:
    await install.start_hub()
    one = await opened(install, terminal)
    await install.kill_hub()
    await install.milestones.wait("term.hub_lost")
    terminal.type(LEAVE)
    assert await terminal.code() == 0
    await terminal.shows(f"`lembas term attach {one}` goes on")
    assert terminal.modes() == terminal.before


async def test_a_terminal_whose_hub_has_died_is_attached_to_by_starting_the_next(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    one = await opened(install, terminal)
    terminal.type("echo be''fore\r")
    await terminal.shows("before")
    await install.kill_hub()
    await install.milestones.wait("term.hub_lost")
    terminal.type(LEAVE)
    assert await terminal.code() == 0
    listed = await install.run("term", "list")
    assert listed.stdout.decode() == (
        "lembasd is not running; terminals that it left are here again once it runs (`lembas term attach ID` starts it)\n"
    )
    async with RealTerminal(install) as other:
        other.run("term", "attach", one)
        await install.milestones.wait("term.attached")
        await other.shows("before")
        other.type("exit 3\r")
        assert await other.code() == 3


async def test_without_an_id_the_only_terminal_is_attached(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    terminal.run("term", "attach")
    assert await terminal.code() == 1
    await terminal.shows("no terminal is open; `lembas term open` opens one")
    one = await opened(install, terminal)
    terminal.type(LEAVE)
    assert await terminal.code() == 0
    async with RealTerminal(install) as other:
        other.run("term", "attach")
        assert (await install.milestones.wait("term.attached"))["terminal_id"] == one
        await other.shows("ready>")
        other.type(LEAVE)
        assert await other.code() == 0
        await opened(install, other)
        terminal.run("term", "attach")
        assert await terminal.code() == 2
        await terminal.shows("several terminals are open")
        other.type("exit\r")
        assert await other.code() == 0


async def test_a_stop_is_said(install: Install, terminal: RealTerminal) -> None:
    await install.start_hub()
    await opened(install, terminal)
    await install.stop()
    assert await terminal.code() != 0
    assert terminal.modes() == terminal.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_signal_gives_the_terminal_back(
    install: Install, terminal: RealTerminal, number: signal.Signals
) -> None:
    await install.start_hub()
    await opened(install, terminal)
    assert terminal.child is not None
    terminal.child.send_signal(number)
    assert await terminal.code() == 128 + number
    assert terminal.modes() == terminal.before
    assert (await install.status())["terminals"]


async def test_a_terminal_that_takes_nothing_stops_nobody_else_and_ctrl_c_still_works(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    one = await opened(install, terminal)
    terminal.read(on=False)
    terminal.type("yes flood\r")
    async with RealTerminal(install) as other:
        other.run("term", "attach", one)
        await other.shows("flood")
        other.type(b"\x03")
        other.type("echo st''opped\r")
        await other.shows("stopped")
    terminal.read(on=True)
    await terminal.shows("stopped")
    terminal.type("exit\r")
    assert await terminal.code() == 0


async def test_a_suspended_command_gives_the_terminal_back_and_draws_anew(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    terminal.run_shell()
    terminal.type(f"{sys.executable} -m lembasd.cli.person term open\r")
    await install.milestones.wait("term.attached")
    await terminal.shows("ready>")
    terminal.type("echo be''fore\r")
    await terminal.shows("before")
    terminal.type(b"\x1d\x1a")
    await terminal.shows("Stopped")
    terminal.screen.reset()
    terminal.type("fg; echo co''de=$?\r")
    await install.milestones.wait("term.reattached")
    await terminal.shows("before")
    terminal.type("exit 4\r")
    await terminal.shows("code=4")
    terminal.type("exit\r")
    assert await terminal.code() == 0


async def test_terminals_are_listed(install: Install, terminal: RealTerminal) -> None:
    none = await install.run("term", "list")
    assert none.stdout.decode() == "no terminal is open; `lembas term open` opens one\n"
    await install.start_hub()
    one = await opened(install, terminal)
    line = (await install.run("term", "list")).stdout.decode()
    assert line.startswith(f"{one}  20")
    assert "  local  bash   80x24    pid " in line
    assert line.endswith(f"  1 looking  {install.project}\n")
    terminal.type(LEAVE)
    assert await terminal.code() == 0


async def test_an_id_that_names_nothing_or_several_is_said(
    install: Install, terminal: RealTerminal
) -> None:
    await install.start_hub()
    terminal.run("term", "attach", "nope")
    assert await terminal.code() == 1
    await terminal.shows("no terminal 'nope' is open; `lembas term list` names those that are")
    for _ in range(2):
        async with RealTerminal(install) as other:
            await opened(install, other)
            other.type(LEAVE)
            assert await other.code() == 0
    terminal.run("term", "attach", "term_")
    assert await terminal.code() == 2
    await terminal.shows("begins several terminals (term_")


async def test_a_terminal_is_not_shown_in_itself(install: Install, terminal: RealTerminal) -> None:
    await install.start_hub()
    one = await opened(install, terminal)
    terminal.type(f"{sys.executable} -m lembasd.cli.person term attach {one}\r")
    await terminal.shows(f"this is {one} already; attach to it from another terminal")
    terminal.type("exit\r")
    assert await terminal.code() == 1


async def test_without_a_terminal_it_says_so(install: Install) -> None:
    done = await install.run("term", "open")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "this needs a terminal as standard input and output; in a script run the command itself\n"
    )
    assert not install.paths.socket.exists()
