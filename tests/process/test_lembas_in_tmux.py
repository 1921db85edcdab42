"""The whole of `lembas` in a terminal of tmux', with a real hub, real workers and the pocket instance's demo model."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lembasd.instance.main import Instance, InstanceOptions
from tests.support.daemon import Install
from tests.support.linked_device import log_in
from tests.support.tmux import IS_THERE, Tmux

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not IS_THERE, reason="tmux is not installed"),
]


@pytest.fixture
async def install(short_tmp: Path) -> AsyncIterator[Install]:
    async with (
        Instance(InstanceOptions(approve=True)) as instance,
        Install(short_tmp) as one,
    ):
        one.configure()
        one.log_in(instance.base_url, "demo", await log_in(instance))
        (one.project / "greet.py").write_text('print("Helo")\n')
        yield one


@pytest.fixture
async def tmux(install: Install) -> AsyncIterator[Tmux]:
    async with Tmux(install) as one:
        yield one


async def test_a_turn_with_its_cards_from_a_hub_that_it_starts_to_the_next_day(
    install: Install, tmux: Tmux
) -> None:
    await tmux.lembas()
    # typed before there is anything to type in
    await tmux.type("fix greet.py")
    await tmux.keys("Enter")
    await tmux.shows("I read greet.py first.", "? edit greet.py", "+Hello", "y Allow once")
    await install.milestones.wait("hub.listening")
    await tmux.press_until("y", "? run a command", "python3 greet.py", "e Edit")
    await tmux.press_until("e", "the command: python3 greet.py")
    await tmux.type(" there")
    await tmux.keys("Enter")
    await tmux.shows("✓ bash", "The last tool said: Hello", "ready")
    assert (install.project / "greet.py").read_text() == 'print("Hello")\n'
    await tmux.keys("C-d")
    await tmux.shows("ready>")
    await tmux.lembas("-c")
    await tmux.shows("> fix greet.py", "✓ read  greet.py", "The last tool said: Hello")
    await tmux.resize(60, 16)
    await tmux.shows("The last tool said:")
    await tmux.keys("C-z")
    await tmux.shows("Stopped")
    await tmux.type("clear; fg")
    await tmux.keys("Enter")
    await tmux.shows("The last tool said:", "ready")
    await tmux.type("/new")
    await tmux.keys("Enter")
    await tmux.hides("The last tool said:")
    await tmux.type("/sessions letter is missing")
    await tmux.keys("Enter")
    await tmux.shows("fix greet.py  A letter is missing.")
    await tmux.keys("Enter")
    await tmux.shows("The last tool said:", "ready")
    await tmux.type("/quit")
    await tmux.keys("Enter")
    await tmux.shows("ready>")


async def test_two_terminals_on_one_session_through_the_death_of_the_hub(
    install: Install, tmux: Tmux
) -> None:
    await install.start_hub()
    await tmux.lembas()
    await tmux.shows("ready", "manual")
    await tmux.type("count to 60 slowly, every 100 ms")
    await tmux.keys("Enter")
    await tmux.shows(" 8 9 ")
    await install.kill_hub()
    await tmux.shows("lembasd is gone; this waits for its return")
    await install.start_hub()
    await tmux.shows(" 20 21 ")
    (session,) = [one["session_id"] for one in (await install.status())["workers"]]
    await tmux.keys("C-z")
    await tmux.shows("Stopped")
    await tmux.lembas("attach", session, before="NO_COLOR=1")
    screen = await tmux.shows("59 60", "ready")
    numbers = [int(one) for one in re.findall(r"\b\d+\b", screen.partition("model)")[2])]
    assert numbers[:60] == list(range(1, 61)), "each once, and none left out"
    colours = re.findall(r"\x1b\[[\d;]*m", await tmux.screen(escapes=True))
    assert not [one for one in colours if re.search(r"[\[;](?:3[0-7]|4[0-7]|9\d|10\d)[;m]", one)]


async def test_a_service_that_was_stopped_is_not_started(install: Install, tmux: Tmux) -> None:
    await install.start_hub()
    await tmux.lembas()
    await tmux.shows("ready", "manual")  # the prompt of the shell is one too
    await tmux.type("half a sentence")
    done = await install.run("stop", service=True)
    assert done.returncode == 0
    await tmux.shows("lembasd was stopped; `lembasd run` starts it", "not connected")
    assert (await install.run("status", service=True)).returncode == 3
    (lembas,) = [one for one in install.processes() if "lembasd.cli.person" in one.cmdline()]
    lembas.terminate()
    await tmux.shows("ready>")
    await tmux.lembas()
    await tmux.shows("lembasd was not running; it is started", "> half a sentence")
    await tmux.keys("C-c", "C-c", "C-c")
    await tmux.shows("ready>")
