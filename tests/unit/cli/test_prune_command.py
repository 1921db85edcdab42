"""`lembas sessions prune`, where no hub runs."""

import os
import time
from pathlib import Path

import pytest

from lembasd.store.deletes import Deletes
from lembasd.store.journal import Journal
from lembasd.store.pre_images import PreImages, pre_image
from lembasd.store.records import Created, TitleSet
from tests.support.command_line import CommandLine

DAY_S = 86_400


def name(number: int) -> str:
    return f"ses_{number:026d}"


def store(run: CommandLine, number: int, days: float, title: str = "") -> Journal:
    """A session that has not changed for so many days; its journal has the size of the title and a bit."""
    run.paths.make()
    journal = Journal.create(run.paths, name(number))
    journal.append(Created(session_id=name(number), root="/project", mode="edit", model="m"))
    journal.append(TitleSet(title=title))
    at = time.time() - days * DAY_S
    os.utime(run.paths.session(name(number)) / "journal.jsonl", (at, at))
    return journal


def three(run: CommandLine) -> None:
    store(run, 0, 40).close()
    store(run, 1, 50, "x" * 3000).close()
    store(run, 2, 1).close()


def left(run: CommandLine) -> list[int]:
    return sorted(int(one.name[4:]) for one in run.paths.sessions.iterdir())


def test_old_sessions_go_the_oldest_first_and_the_instance_is_to_hear_of_it(
    run: CommandLine,
) -> None:
    three(run)
    done = run.lembas("sessions", "prune", "--older-than", "30d")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [name(1), name(0)]
    assert lines[0].endswith("3.2 kB")
    assert lines[-1].startswith("2 sessions deleted, which frees 3.")
    assert (done.code, left(run), Deletes(run.paths).kept()) == (0, [2], [name(0), name(1)])


def test_what_is_asked_for_must_all_be_true(run: CommandLine) -> None:
    three(run)
    run.lembas("sessions", "prune", "--older-than", "30d", "--larger-than", "3kB")
    assert left(run) == [0, 2]
    run.lembas("sessions", "prune", "--older-than", "30d", "--keep", "2")
    assert left(run) == [0, 2]
    run.lembas("sessions", "prune", "--keep", "1")
    assert left(run) == [2]


def test_a_dry_run_says_what_it_would_free(run: CommandLine) -> None:
    three(run)
    said = run.lembas("sessions", "prune", "--keep", "1", "--dry-run").out
    assert said.splitlines()[-1].startswith("2 sessions would be deleted, which frees 3.")
    value = run.lembas("sessions", "prune", "--keep", "1", "--dry-run", "--json").value
    assert [(one["session_id"], one["deleted"]) for one in value["sessions"]] == [
        (name(1), False),
        (name(0), False),
    ]
    assert value["freed_bytes"] == sum(one["bytes"] for one in value["sessions"]) > 3000
    assert (value["dry_run"], left(run), Deletes(run.paths).kept()) == (True, [0, 1, 2], [])


def test_a_session_that_is_open_stays(run: CommandLine) -> None:
    journal = store(run, 0, 40)
    store(run, 1, 50).close()
    done = run.lembas("sessions", "prune", "--older-than", "30d", "--json")
    assert [one["session_id"] for one in done.value["sessions"]] == [name(1)]
    assert (done.code, left(run)) == (0, [0])
    journal.close()


def test_one_that_cannot_be_deleted_is_said_and_the_others_go(run: CommandLine) -> None:
    three(run)
    (run.paths.outbox / "deleted" / name(1)).mkdir(parents=True)
    done = run.lembas("sessions", "prune", "--older-than", "30d")
    assert (done.code, left(run)) == (1, [1, 2])
    assert f"{name(1)}" in done.out
    assert "  stays: " in done.out
    assert "1 session deleted" in done.out


def test_without_a_choice_it_does_what_the_service_does_each_day(run: CommandLine) -> None:
    three(run)
    content = b"x" * 5000
    for number in (0, 2):
        kept = PreImages(run.paths.session(name(number)))
        kept.keep([(pre_image("c", Path("/p"), content, 0o644, b"y"), content)])
    dry = run.lembas("sessions", "prune", "--dry-run").out
    assert dry.splitlines()[0] == f"{name(0)}  5.2 kB  what files were before changes"
    assert "5.2 kB would be removed; sessions take " in dry
    value = run.lembas("sessions", "prune", "--json").value
    assert (value["undo"], value["sessions"], value["over"], left(run)) == (1, [], False, [0, 1, 2])
    (run.paths.config_file).write_text("retention:\n  sessions: 45d\n  size: 1kB\n")
    done = run.lembas("sessions", "prune")
    assert f"{name(1)}  3." in done.out
    assert "what files were before changes" in done.out
    assert done.out.endswith(
        "that is over retention.size; delete sessions with --older-than or --larger-than\n"
    ) or left(run) == [0, 2]
    assert (left(run), Deletes(run.paths).kept()) == ([0, 2], [name(1)])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--older-than", "soon"], "'soon' is not an age, as 30d, 12h or never"),
        (["--older-than", "never"], "'never' is not an age after which to delete, as 30d or 12h"),
        (["--larger-than", "big"], "'big' is not a size, as 10GB or 500MB"),
        (["--keep", "-1"], "-1 is not in the range"),
    ],
)
def test_what_cannot_be_read_deletes_nothing(run: CommandLine, words: list[str], why: str) -> None:
    three(run)
    done = run.lembas("sessions", "prune", *words)
    assert (done.code, left(run)) == (2, [0, 1, 2])
    assert why in done.err


def test_a_config_that_cannot_be_read_removes_nothing(run: CommandLine) -> None:
    three(run)
    run.paths.config_file.write_text("retention:\n  sessions: 45\n")
    done = run.lembas("sessions", "prune")
    assert (done.code, left(run)) == (1, [0, 1, 2])
    assert "line 2: retention.sessions must be an age, as 30d, 12h or never" in done.err
