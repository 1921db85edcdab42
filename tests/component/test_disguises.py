"""Disguised commands are run for real, with a harmless one in the dangerous one's place: the judge saw what bash did."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lembasd.engine.native.core.shell.expand import read
from tests.support.disguises import ASKED, SEEN, Disguise

NAME, ARGS = "touch", "mark"
#: programs that not every system has
NEEDS = {
    "setsid": "setsid",
    "ionice": "ionice",
    "taskset": "taskset",
    "flock": "flock",
    "flock -c": "flock",
    "openssl to a shell": "openssl",
    "perl": "perl",
    "stdbuf": "stdbuf",
}


def is_run(line: str, place: Path) -> bool:
    """Whether bash runs the marker somewhere in the line."""
    subprocess.run(
        ["bash", "-c", line],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )
    # a process substitution may outlive the line
    for _ in range(200):
        if (place / "mark").exists():
            return True
        subprocess.run(["bash", "-c", ":"], check=False)
    return False


def needed(disguise: str) -> None:
    program = NEEDS.get(disguise)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"there is no {program}")


@pytest.mark.parametrize(("disguise", "make"), SEEN.items(), ids=SEEN)
def test_the_judge_sees_the_command_that_bash_runs(
    tmp_path: Path, disguise: str, make: Disguise
) -> None:
    needed(disguise)
    line = make(NAME, ARGS)
    assert is_run(line, tmp_path), line
    reading = read(line, str(tmp_path), str(tmp_path))
    found = [[word.text for word in one.words] for one in reading.commands]
    names = ([one[0].rpartition("/")[2], *one[1:2]] for one in found if one)
    assert [NAME, ARGS] in names, (line, found)


@pytest.mark.parametrize(("disguise", "make"), ASKED.items(), ids=ASKED)
def test_what_cannot_be_seen_is_known_to_be_unseen(
    tmp_path: Path, disguise: str, make: Disguise
) -> None:
    needed(disguise)
    line = make(NAME, ARGS)
    assert is_run(line, tmp_path), line
    assert read(line, str(tmp_path), str(tmp_path)).unseen, line
