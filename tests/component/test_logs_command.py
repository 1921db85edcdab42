"""`lembasd logs`."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.cli.log_reading import lines, read_since
from lembasd.device.log_file import FILE_NAME, LogFile, older
from lembasd.protocol.errors import UsageError
from tests.support.command_line import CommandLine, Done

_PERSON = "import sys; from lembasd.cli.service import main; sys.exit(main())"


@pytest.fixture
def run(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setenv("TZ", "UTC")
    return CommandLine(short_tmp / "h", monkeypatch, capsys)


def line(event: str, level: str = "info", **fields: object) -> bytes:
    head = {"timestamp": "2026-01-02T03:04:05.678Z", "level": level, "event": event}
    return msgspec.json.encode({**head, "component": "hub", "pid": 7, **fields}) + b"\n"


def write(paths: Any, *said: bytes, age: int = 0) -> None:
    paths.make()
    path = paths.log / FILE_NAME
    with (older(path, age) if age else path).open("ab") as file:
        file.write(b"".join(said))


def test_without_a_log_it_says_how_one_comes_about(run: CommandLine) -> None:
    done = run.lembasd("logs")
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("yet; start lembasd with `lembasd run`\n")


def test_files_that_were_turned_over_come_first(run: CommandLine) -> None:
    write(run.paths, line("third"))
    write(run.paths, line("second"), age=1)
    write(run.paths, line("first"), age=2)
    events = [one["event"] for one in run.lembasd("logs", "--json").values]
    assert events == ["first", "second", "third"]
    assert [one["event"] for one in run.lembasd("logs", "--json", "-n", "1").values] == ["third"]


def test_a_line_is_readable_and_spells_control_characters(run: CommandLine) -> None:
    write(run.paths, line("odd_thing", "warning", session_id="ses_1", error="a\x1b[2Jb\nc", n=3))
    write(run.paths, b"no json\x07\n", line("plain"))
    assert run.lembasd("logs") == Done(
        0,
        "2026-01-02 03:04:05 warning hub    odd_thing  pid=7 session_id=ses_1 error=a\\x1b[2Jb\n"
        "    c n=3\n"
        "no json\\x07\n"
        "2026-01-02 03:04:05 info    hub    plain  pid=7\n",
        "",
    )


def test_level_session_and_time_choose_lines(run: CommandLine) -> None:
    write(run.paths, line("a", "debug"), line("b", session_id="ses_12"), line("c", "error"))
    write(run.paths, line("d", channel="ses_12"), line("e", terminal_id="term_1"), b"odd\n")

    def events(*args: str) -> list[str]:
        return [one["event"] for one in run.lembasd("logs", "--json", *args).values]

    assert events("--level", "warning") == ["c"]
    assert events("--session", "ses_1") == ["b", "d"]
    assert events("--session", "term_1") == ["e"]
    assert events("--since", "2026-01-02T03:04:05.679+00:00") == []
    assert events("--since", "2026-01-02T03:04:05Z", "--level", "error") == ["c"]


def test_a_time_that_is_none_is_a_usage_error(run: CommandLine) -> None:
    write(run.paths, line("a"))
    done = run.lembasd("logs", "--since", "soon")
    assert (done.code, done.err.startswith("'soon' is no time")) == (2, True)


def test_times_are_read_as_ages_and_as_dates() -> None:
    now = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
    assert read_since("90s", now) == "2026-01-02T11:58:30.000Z"
    assert read_since("3d", now) == "2025-12-30T12:00:00.000Z"
    assert read_since("2026-01-01T00:00+02:00", now) == "2025-12-31T22:00:00.000Z"
    for odd in ("", "10", "9" * 20 + "d"):
        with pytest.raises(UsageError):
            read_since(odd, now)


class Enough(Exception):
    """The test has seen what it wanted."""


def followed(directory: Path, steps: list[Callable[[], object]]) -> list[bytes]:
    """What is told while these steps are done, one whenever all was read."""
    seen: list[bytes] = []

    def wait() -> None:
        if not steps:
            raise Enough
        steps.pop(0)()

    with pytest.raises(Enough):
        seen.extend(one.raw for one in _into(seen, directory, wait))
    return seen


def _into(seen: list[bytes], directory: Path, wait: Callable[[], None]) -> Any:
    for one in lines(directory, wait):
        seen.append(one.raw)
        yield from ()


def test_following_goes_on_over_files_that_are_turned_over(tmp_path: Path) -> None:
    file = LogFile(tmp_path, largest=10, look_s=0.0)
    late = (tmp_path / FILE_NAME).open("ab", buffering=0)

    def several() -> None:
        for number in range(3):
            file.write(b"%020d\n" % number)

    assert followed(
        tmp_path,
        [
            lambda: file.write(b"one, that fills it\n"),
            lambda: file.write(b"two\n"),
            # a process that has not seen yet that the file was turned over
            lambda: late.write(b"la"),
            lambda: late.write(b"te\n"),
            lambda: file.write(b"three, and over\n"),
            several,
        ],
    ) == [
        b"one, that fills it",
        b"two",
        b"late",
        b"three, and over",
        *(b"%020d" % number for number in range(3)),
    ]  # fmt: skip
    file.close()
    late.close()


def test_a_line_without_an_end_is_shown_too(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"whole\ntorn")
    assert [one.raw for one in lines(tmp_path)] == [b"whole", b"torn"]


def test_the_command_follows_until_it_is_interrupted(run: CommandLine) -> None:
    write(run.paths, line("before"), line("last"))
    child = subprocess.Popen(
        [sys.executable, "-c", _PERSON, "logs", "-f", "--json", "-n", "1"],
        stdout=subprocess.PIPE,
        env={**os.environ},
    )
    assert child.stdout is not None
    assert msgspec.json.decode(child.stdout.readline())["event"] == "last"
    write(run.paths, line("now"))
    assert msgspec.json.decode(child.stdout.readline())["event"] == "now"
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 130
    child.stdout.close()
