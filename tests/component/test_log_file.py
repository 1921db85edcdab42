"""The log's file: turned over when it is too large, shared by processes, bounded."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lembasd.device import log_file
from lembasd.device.log_file import FILE_NAME, KEPT, LOOK_BYTES, LogFile, files, older

#: one line of the writers
_LINE = 100


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogFile]:
    file = LogFile(tmp_path, largest=1000, look_s=0.0)
    yield file
    file.close()


def _numbers(paths: list[Path]) -> list[int]:
    return [int(line) for path in paths for line in path.read_bytes().split()]


def test_a_full_file_is_turned_over_and_no_line_is_lost(log: LogFile, tmp_path: Path) -> None:
    for number in range(40):
        log.write(b"%99d\n" % number)
    found = files(tmp_path)
    assert [one.name for one in found] == [f"{FILE_NAME}.{n}" for n in (3, 2, 1)] + [FILE_NAME]
    assert _numbers(found) == list(range(40))
    assert {one.stat().st_mode & 0o777 for one in found} == {0o600}


def test_the_oldest_file_makes_room_for_the_next(log: LogFile, tmp_path: Path) -> None:
    for number in range(200):
        log.write(b"%99d\n" % number)
    found = files(tmp_path)
    assert len(found) == KEPT + 1
    assert sum(one.stat().st_size for one in found) <= (KEPT + 1) * 1000
    numbers = _numbers(found)
    assert numbers == list(range(200 - len(numbers), 200))


def test_whoever_did_not_turn_it_over_goes_on_in_the_new_file(tmp_path: Path) -> None:
    one, other = (LogFile(tmp_path, largest=1000, look_s=0.0) for _ in range(2))
    for number in range(11):
        one.write(b"%99d\n" % number)
    other.write(b"11\n")
    assert _numbers([tmp_path / FILE_NAME]) == [10, 11]
    one.close()
    other.close()


def test_between_two_looks_nothing_is_asked_of_the_disk_until_much_was_written(
    tmp_path: Path,
) -> None:
    file = LogFile(tmp_path, largest=1000, look_s=3600.0)
    line = b"x" * 1023 + b"\n"
    for _ in range(LOOK_BYTES // len(line) - 1):
        file.write(line)
    assert files(tmp_path) == [tmp_path / FILE_NAME]
    file.write(line)
    assert len(files(tmp_path)) == 2
    file.close()


def test_a_file_that_was_taken_away_is_made_anew(log: LogFile, tmp_path: Path) -> None:
    log.write(b"1\n")
    (tmp_path / FILE_NAME).unlink()
    log.write(b"2\n")
    assert _numbers(files(tmp_path)) == [2]


def test_a_log_that_cannot_be_written_stops_nobody(log: LogFile, tmp_path: Path) -> None:
    for one in files(tmp_path):
        one.unlink()
    (tmp_path / FILE_NAME).mkdir()
    log.write(b"lost\n")
    assert older(tmp_path / FILE_NAME, 1).exists() is False


_WRITER = """
import sys
from pathlib import Path
from lembasd.device.log_file import LogFile
file = LogFile(Path(sys.argv[1]), largest=40_000, look_s=0.0)
for number in range(300):
    file.write(b'{"writer":%s,"number":%d,"pad":"%s"}\\n' % (sys.argv[2].encode(), number, b"x" * 60))
"""


def test_several_processes_share_one_file_line_by_line(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), str(n)]) for n in range(4)
    ]
    assert [one.wait(60) for one in writers] == [0] * 4
    seen: dict[int, list[int]] = {}
    for path in files(tmp_path):
        assert path.stat().st_size <= 40_000 + 4 * log_file.LOOK_BYTES
        for line in path.read_bytes().splitlines():
            said = msgspec.json.decode(line, type=dict[str, object])
            seen.setdefault(int(str(said["writer"])), []).append(int(str(said["number"])))
    # a writer that was between its look and its write may be a file behind; none is lost, none is torn
    assert {writer: sorted(numbers) for writer, numbers in seen.items()} == {
        n: list(range(300)) for n in range(4)
    }
