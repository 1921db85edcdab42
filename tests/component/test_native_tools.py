"""The tools on real files and real processes."""

import asyncio
import codecs
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lembasd.device import runtime
from lembasd.device.process_tree import by_marker
from lembasd.engine.api import TurnOutcome
from lembasd.store.records import ToolResult, ToolStarted
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.subreaper import no_subreaper

Use = Callable[..., Any]


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    """As in a worker, what a command leaves behind becomes this process' child; undone, for other tests are none."""
    runtime.become_subreaper()
    yield
    no_subreaper()


@pytest.fixture
def use(host: RecorderHost, model: ScriptedModel) -> Use:
    """Have one call made, and give its result."""

    async def call(name: str, **args: Any) -> ToolResult:
        model.script(Reply(calls=[(name, args)]))
        # each time in a worker of its own, from the journal as it stands
        engine = host.engine("auto", list(host.records))
        assert await host.turn(engine) == TurnOutcome(stop_reason="end_turn")
        await engine.aclose()
        return host.results()[-1]

    return call


# ── read and list ───────────────────────────────────────────────────────────────────────────────


async def test_a_part_of_a_file_says_how_to_read_on(host: RecorderHost, use: Use) -> None:
    (host.root / "a").write_text("1\n2\n3\n4\n")
    result = await use("read", path="a", offset=2, limit=2)
    assert result.output == "     2\t2\n     3\t3\n[lines 2-3 of 4; read on with offset 4]"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _path: None, "No such file or directory: a"),
        (os.mkfifo, "a is a pipe, not a file"),
        (lambda path: path.write_bytes(b"\x7fELF\0\0"), "a is a binary file (6 bytes)"),
        (lambda path: path.write_bytes(b"\xff\xfeA"), "a is not valid utf-16-le"),
    ],
)
async def test_what_is_no_text_file_is_not_read(
    host: RecorderHost, use: Use, make: Callable[[Path], None], says: str
) -> None:
    make(host.root / "a")
    result = await use("read", path="a")
    assert (result.output, result.is_error) == (says, True)


async def test_a_file_that_is_too_large_is_not_read(host: RecorderHost, use: Use) -> None:
    with (host.root / "a").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    assert (await use("read", path="a")).output.startswith("a is too large (11,534,336 bytes")


async def test_an_empty_file_and_an_offset_behind_the_end_are_said(
    host: RecorderHost, use: Use
) -> None:
    (host.root / "a").write_text("")
    (host.root / "b").write_text("x\n")
    assert (await use("read", path="a")).output == "a is empty"
    assert (await use("read", path="b", offset=5)).output == "b has 1 lines, none from 5 on"


async def test_a_folder_is_listed_as_a_tree(host: RecorderHost, use: Use) -> None:
    (host.root / "src" / "deep" / "deeper" / "no").mkdir(parents=True)
    (host.root / "src" / "a.py").touch()
    (host.root / ".git" / "objects").mkdir(parents=True)
    (host.root / "link").symlink_to("src")
    assert (await use("list")).output.splitlines() == [
        ".git/",
        "link@",
        "src/",
        "  a.py",
        "  deep/",
        "    deeper/",
    ]
    assert (await use("list", path="src/deep/deeper/no")).output.endswith("no is empty")
    assert (await use("list", path="gone")).output == "No such file or directory: gone"


# ── write and edit ──────────────────────────────────────────────────────────────────────────────


async def test_a_new_file_is_written_with_its_folders(host: RecorderHost, use: Use) -> None:
    result = await use("write", path="a/b.txt", content="x\n")
    assert (host.root / "a" / "b.txt").read_text() == "x\n"
    assert result.output == "Wrote a/b.txt (new, 1 line)"
    assert result.diff == "--- a/a/b.txt\n+++ b/a/b.txt\n@@ -0,0 +1 @@\n+x"
    assert [path.name for path in (host.root / "a").iterdir()] == ["b.txt"]


@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8], ids=["plain", "bom"])
async def test_a_written_file_keeps_its_line_endings_bom_and_mode(
    host: RecorderHost, use: Use, bom: bytes
) -> None:
    path = host.root / "run.sh"
    path.write_bytes(bom + b"one\r\ntwo\r\n")
    path.chmod(0o750)
    await use("read", path="run.sh")
    await use("write", path="run.sh", content="three\nfour\n")
    assert path.read_bytes() == bom + b"three\r\nfour\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nX\r\nY\r\n"),
        (codecs.BOM_UTF8 + b"a\nb\nc\n", codecs.BOM_UTF8 + b"a\nX\nY\n"),
        (b"caf\xe9\nb\nc\n", b"caf\xe9\nX\nY\n"),
        (
            codecs.BOM_UTF16_LE + "a\nb\nc\n".encode("utf-16-le"),
            codecs.BOM_UTF16_LE + "a\nX\nY\n".encode("utf-16-le"),
        ),
    ],
    ids=["crlf", "bom", "latin-1", "utf-16"],
)
async def test_an_edit_changes_nothing_but_its_piece(
    host: RecorderHost, use: Use, before: bytes, after: bytes
) -> None:
    (host.root / "a").write_bytes(before)
    result = await use("edit", path="a", old="b\nc\n", new="X\nY\n")
    assert ((host.root / "a").read_bytes(), result.is_error) == (after, False)
    assert result.diff is not None
    assert "+X" in result.diff


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            {"old": "x", "new": "y"},
            "`old` does not stand in a; read it again and copy the text exactly",
        ),
        (
            {"old": "b", "new": "y"},
            "`old` stands in a 2 times, at line 1; give more lines around it, or set replace_all",
        ),
        ({"old": "", "new": "y"}, "`old` is empty; use write for a whole file"),
        ({"old": "b", "new": "b"}, "`old` and `new` are the same: nothing to change"),
    ],
)
async def test_an_edit_that_is_not_exact_changes_nothing(
    host: RecorderHost, use: Use, args: dict[str, str], says: str
) -> None:
    (host.root / "a").write_text("b b\n")
    result = await use("edit", path="a", **args)
    assert (result.output, result.is_error) == (says, True)
    assert (host.root / "a").read_text() == "b b\n"


async def test_an_edit_replaces_every_place_when_it_is_told_to(
    host: RecorderHost, use: Use
) -> None:
    (host.root / "a").write_text("b b\n")
    await use("edit", path="a", old="b", new="c", replace_all=True)
    assert (host.root / "a").read_text() == "c c\n"


async def test_a_character_that_the_files_encoding_lacks_is_refused(
    host: RecorderHost, use: Use
) -> None:
    (host.root / "a").write_bytes(b"caf\xe9\n")
    result = await use("edit", path="a", old="caf", new="→")
    assert (result.is_error, (host.root / "a").read_bytes()) == (True, b"caf\xe9\n")


# ── bash ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "output", "is_error"),
    [
        ("true", "[no output, exit status 0]", False),
        ("echo out; echo err >&2", "out\nerr\n", False),
        ("printf x; exit 3", "x\n[exit status 3]", True),
        ("kill -9 $$", "[ended by signal 9]", True),
        ("cat", "[no output, exit status 0]", False),
        ("tty", "not a tty\n[exit status 1]", True),
    ],
)
async def test_a_command_gives_its_output_and_how_it_ended(
    use: Use, command: str, output: str, is_error: bool
) -> None:
    result = await use("bash", command=command)
    assert (result.output, result.is_error) == (output, is_error)


async def test_a_command_runs_in_the_project_in_a_session_of_its_own(
    host: RecorderHost, use: Use
) -> None:
    result = await use("bash", command="pwd; ps -o sid= -p $$; echo $$")
    where, session, pid = result.output.split()
    assert (where, session == pid) == (str(host.root), True)


async def test_a_command_sees_the_marker_and_nothing_of_the_service(
    host: RecorderHost, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBASD_RUN", "/secret")
    monkeypatch.setenv("NOTIFY_SOCKET", "/secret")
    result = await use("bash", command="env | grep -E '^(LEMBAS|NOTIFY)'")
    assert result.output == f"LEMBASD_SESSION={host.session_id}:1\n"


async def test_a_long_output_keeps_its_first_and_last_lines(use: Use) -> None:
    result = await use("bash", command="seq 1000")
    lines = result.output.splitlines()
    assert (lines[0], lines[199], lines[200]) == (
        "1",
        "200",
        "[600 lines elided, full output #0001]",
    )
    assert (lines[201], lines[-1]) == ("801", "1000")


async def test_an_output_without_end_is_bounded(use: Use) -> None:
    result = await use("bash", command="yes | head -c 6000000; echo last")
    assert len(result.output) <= 41_000
    assert result.output.endswith("y\nlast\n")


async def test_a_command_over_its_time_is_ended_and_says_so(use: Use) -> None:
    result = await use("bash", command="echo begun; sleep 60", timeout=1)
    assert (result.output, result.is_error) == (
        "begun\n[ended after 1 s; give a longer timeout, or a shorter command]",
        True,
    )


async def test_what_a_command_leaves_in_the_background_ends_with_it(use: Use) -> None:
    result = await use("bash", command="sleep 300 & echo $!")
    assert result.output.endswith("[1 processes it had left in the background were ended with it]")
    assert not psutil.pid_exists(int(result.output.split()[0]))


async def test_a_daemon_of_a_command_ends_with_it(host: RecorderHost, use: Use) -> None:
    daemon = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(300)"
    (host.root / "daemon.py").write_text(daemon)
    await use("bash", command=f"{sys.executable} daemon.py >/dev/null 2>&1")
    assert by_marker(host.session_id) == []


async def test_a_cancel_ends_the_whole_tree_of_a_command(
    host: RecorderHost, model: ScriptedModel
) -> None:
    command = "mkfifo f g; read < f; (sleep 300 & cat g) & cat g"
    model.script(Reply(calls=[("bash", {"command": command})]))
    engine = host.engine("auto")
    running = asyncio.create_task(host.turn(engine))
    await host.until(ToolStarted)
    # two handshakes: the first may come before the loop knows that the command runs
    with await asyncio.to_thread(_open_when_there, host.root / "f") as first:
        first.write(b"go\n")
    with await asyncio.to_thread(_open_when_there, host.root / "g"):
        engine.cancel()
        assert await running == TurnOutcome(stop_reason="cancelled")
    await engine.aclose()
    assert by_marker(host.session_id) == []
    assert [one.output for one in host.results()] == [
        "Cancelled by the person while it ran; what it had done stays."
    ]


def _open_when_there(path: Path) -> Any:
    """Open a FIFO for writing: it waits for a reader, and its reader for the command to have made it."""
    while True:
        try:
            return os.fdopen(os.open(path, os.O_WRONLY), "wb")
        except FileNotFoundError:
            os.sched_yield()


async def test_closing_the_engine_ends_the_command_that_runs(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "mkfifo f; cat f"})]))
    engine = host.engine("auto")
    running = asyncio.create_task(host.turn(engine))
    await host.until(ToolStarted)
    with await asyncio.to_thread(_open_when_there, host.root / "f"):
        await engine.aclose()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert by_marker(host.session_id) == []
