"""Terminals on the pocket instance's page, in a real browser, with the whole service running."""

import json
import time
from collections.abc import AsyncIterator

import pytest

from lembasd.instance.main import Instance, InstanceOptions
from tests.support.browser import CHROMIUM, Browser
from tests.support.daemon import Install
from tests.support.linked_device import log_in

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

#: the terminal that is seen, as text
SCREEN = (
    "[...document.querySelectorAll('.terminal-host:not([hidden]) .xterm-rows > div')]"
    ".map((row) => row.textContent).join('\\n')"
)


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


@pytest.fixture
async def install(zygote_install: Install, instance: Instance) -> Install:
    """A device that is linked to the instance, whose shells read no start-up files."""
    install = zygote_install
    (install.base / ".bash_profile").write_text("PS1='ready> '\n")
    install.environment |= {"SHELL": "/bin/bash"}
    install.log_in(instance.base_url, token=await log_in(instance))
    await install.start_hub()
    return install


@pytest.fixture
async def page(install: Install, instance: Instance) -> AsyncIterator[Browser]:
    """The page with one terminal open."""
    async with Browser() as browser:
        await browser.open(instance.page)
        await browser.until("!document.getElementById('new-terminal-box').hidden")
        await open_terminal(browser)
        yield browser
        assert browser.complaints == []


async def open_terminal(page: Browser) -> None:
    tabs = "document.querySelectorAll('[role=tab]').length"
    before = await page.value(tabs)
    await page.value("document.getElementById('new-terminal').requestSubmit()")
    await page.until(f"{tabs} === {before + 1}")
    await shows(page, "ready>")


async def shows(page: Browser, text: str, timeout_s: float = 30.0) -> None:
    await page.until(f"({SCREEN}).includes({json.dumps(text)})", timeout_s)


async def test_a_shell_is_typed_into_and_its_end_is_shown(page: Browser, install: Install) -> None:
    await page.type("echo so-it-$((40+2)) $PWD\r")
    await shows(page, f"so-it-42 {install.base}")
    await page.type("exit 3\r")
    state = "document.getElementById('terminal-state').textContent"
    await page.until(f"{state} === 'The shell has ended with exit code 3.'")


async def test_colours_are_drawn_within_the_pages_policy(page: Browser) -> None:
    await page.type("printf '\\033[38;2;1;2;3mtrue\\033[m \\033[1;31mred\\033[m\\n'\r")
    await page.until(
        "[...document.querySelectorAll('.xterm-rows span')]"
        ".some((one) => getComputedStyle(one).color === 'rgb(1, 2, 3)')"
    )
    await page.until(
        "[...document.querySelectorAll('.xterm-rows span.xterm-bold')]"
        ".some((one) => getComputedStyle(one).fontWeight === '700')"
    )


async def test_a_flood_is_stopped_at_once(page: Browser) -> None:
    took = []
    # a machine that does much else may be late once
    for number in range(3):
        await page.type(f"yes flood{number}\r")
        await shows(page, f"flood{number}\nflood{number}\nflood{number}")
        start = time.monotonic()
        await page.key("c", 67, ctrl=True)
        await page.until(f"({SCREEN}).trimEnd().endsWith('ready>')", 10)
        took.append(time.monotonic() - start)
    assert min(took) < 0.5
    await page.type("echo st''ill\r")
    await shows(page, "still")


async def test_nothing_of_much_output_is_lost(page: Browser) -> None:
    await page.type("seq -f 'n%06g' 60000 | tee n | cksum; cat n; echo do''ne\r")
    await shows(page, "done")
    shown = (await page.value(SCREEN)).splitlines()
    numbers = [int(line[1:]) for line in shown if line.startswith("n0")]
    assert numbers == list(range(60001 - len(numbers), 60001))


async def test_a_full_screen_program_a_resize_and_a_reload(page: Browser) -> None:
    await page.type("seq 500 > n; vim -u NONE n\r")
    await shows(page, "1\n2\n3")
    await page.type("G")
    await shows(page, "499\n500")
    await page.type(":set nu\r")
    await shows(page, "500 500")
    metrics = {"width": 700, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    before = await page.value("document.querySelectorAll('.xterm-rows > div').length")
    await page.call("Emulation.setDeviceMetricsOverride", **metrics)
    await page.until(f"document.querySelectorAll('.xterm-rows > div').length < {before}")
    await shows(page, "500 500")
    await page.call("Page.reload")
    await page.until("document.querySelectorAll('#terminals button').length === 1")
    await page.value("document.querySelector('#terminals button').click()")
    await shows(page, "500 500")
    await page.type(":q!\r")
    await shows(page, "ready>")
    await page.type("echo cl''ean\r")
    await shows(page, "ready> echo cl''ean\nclean")


async def test_a_hub_that_dies_is_said_and_the_terminal_goes_on(
    page: Browser, install: Install
) -> None:
    await page.type("x=kept; echo wa''its\r")
    await shows(page, "waits")
    await install.kill_hub()
    state = "document.getElementById('terminal-state').textContent"
    await page.until(f"{state}.includes('its device is not linked')")
    # typed meanwhile
    await page.type("echo still-$x\r")
    await install.start_hub()
    await page.until(f"{state} === ''")
    await shows(page, "still-kept")


async def test_four_terminals_are_tabs_and_a_fifth_is_refused(page: Browser) -> None:
    for _ in range(3):
        await open_terminal(page)
    assert await page.value("document.querySelectorAll('[role=tab]').length") == 4
    await page.value("document.getElementById('new-terminal').requestSubmit()")
    problem = "document.getElementById('problem').textContent"
    await page.until(f"{problem}.includes('Four terminals are open')")
    await page.type("echo in-$((4))\r")
    await shows(page, "in-4")
    await page.value("document.querySelector('[role=tab]').click()")
    assert "in-4" not in await page.value(SCREEN)
    await page.value("document.querySelector('.tab [aria-label^=Close]').click()")
    await page.until("document.querySelectorAll('[role=tab]').length === 3")


async def test_why_a_terminal_is_refused_is_said_and_its_tab_is_gone(page: Browser) -> None:
    await page.value("document.getElementById('new-terminal').elements.cwd.value = '/'")
    await page.value("document.getElementById('new-terminal').requestSubmit()")
    await page.until("document.getElementById('problem').textContent.includes('/')")
    assert await page.value("document.querySelectorAll('[role=tab]').length") == 1
    # a refusal is an answer that the browser complains of
    page.complaints.clear()


async def test_what_is_pasted_arrives_as_a_paste(page: Browser) -> None:
    await page.type("printf '\\033[?2004h'; echo wa''its; cat -v\r")
    await shows(page, "waits")
    await page.value(
        "(() => { const data = new DataTransfer(); data.setData('text/plain', 'two\\nlines');"
        " document.activeElement.dispatchEvent("
        "new ClipboardEvent('paste', { clipboardData: data, bubbles: true })); })()"
    )
    await shows(page, "^[[200~two\n")
    await shows(page, "lines^[[201~")


async def test_terminals_that_are_off_are_said_with_what_turns_them_on(
    install: Install, instance: Instance
) -> None:
    install.configure(terminal=False)
    async with Browser() as browser:
        await browser.open(instance.page)
        await browser.until("!document.getElementById('terminals-off').hidden")
        text = await browser.value("document.getElementById('terminals-off').innerText")
    assert "lembas remote terminal on" in text
