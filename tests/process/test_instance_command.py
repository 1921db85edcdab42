"""`lembas instance` as a real process: its first line, its end, and what it says when it cannot start."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.process
_RUN = "import sys; from lembasd.cli.person import main; sys.exit(main())"
#: what a loaded machine needs to start Python and end it
TIMEOUT_S = 20.0


@pytest.fixture(autouse=True)
def scratch_home(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp / "h"))


@asynccontextmanager
async def running(*args: str) -> AsyncIterator[Process]:
    port = () if "--port" in args else ("--port", "0")
    command = (sys.executable, "-W", "error", "-c", _RUN, "instance", *port, *args)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_its_first_line_is_the_page_and_a_signal_ends_it_cleanly(
    number: signal.Signals,
) -> None:
    async with running() as process:
        assert process.stdout is not None
        opened = (await process.stdout.readline()).decode()
        address = opened.removeprefix("Open ").strip()
        async with httpx.AsyncClient(follow_redirects=True) as http:
            page = await http.get(address)
            # a reader that stays does not hold up the end
            base = address.partition("?")[0]
            async with http.stream("GET", f"{base}api/local/events"):
                process.send_signal(number)
                rest, errors = await process.communicate()
    assert opened.startswith("Open http://127.0.0.1:")
    assert page.status_code == 200
    assert "demo" in rest.decode()
    assert (process.returncode, errors) == (0, b"")


async def refused(*args: str) -> str:
    """The one sentence of a start that failed."""
    async with running(*args) as process:
        out, errors = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert errors.count(b"\n") == 1
    return errors.decode()


async def test_a_port_that_is_taken_is_said(short_tmp: Path) -> None:
    async with running() as process:
        assert process.stdout is not None
        port = (await process.stdout.readline()).split(b":")[2].split(b"/")[0].decode()
        assert f"port {port} is taken" in await refused(
            "--port", port, "--data", str(short_tmp / "d")
        )


async def test_its_logins_are_kept_with_the_persons_state(short_tmp: Path) -> None:
    async with running() as process:
        assert process.stdout is not None
        await process.stdout.readline()
        assert (short_tmp / "h" / "state" / "instance" / "lock").exists()


async def test_an_upstream_that_does_not_answer_is_said_at_the_start() -> None:
    async with running("--upstream", "http://127.0.0.1:9") as process:
        assert process.stdout is not None
        await process.stdout.readline()
        said = (await process.stdout.readline()).decode()
    assert said == (
        "http://127.0.0.1:9 does not answer as an OpenAI-compatible server; "
        "its models come once it does\n"
    )


@pytest.mark.parametrize(
    ("mode", "text", "problem"),
    [
        (0o644, "key", "can be read by others; run `chmod 600"),
        (0o600, "two words", "holds no key"),
        (0o600, "", "holds no key"),
    ],
)
async def test_a_key_file_that_cannot_be_used_is_said(
    short_tmp: Path, mode: int, text: str, problem: str
) -> None:
    file = short_tmp / "key"
    file.write_text(text)
    file.chmod(mode)
    args = ["--upstream", "http://127.0.0.1:1/v1", "--upstream-key-file", str(file)]
    assert problem in await refused(*args)


async def test_a_key_file_that_is_not_there_is_said(short_tmp: Path) -> None:
    args = ["--upstream", "http://127.0.0.1:1/v1", "--upstream-key-file", str(short_tmp / "key")]
    assert "is not there" in await refused(*args)


async def test_an_upstream_that_is_no_address_is_said() -> None:
    assert "is no server address" in await refused("--upstream", "nope")


async def test_a_key_without_an_upstream_is_said() -> None:
    assert "upstream" in await refused("--upstream-key-env", "NO_SUCH_VARIABLE")
