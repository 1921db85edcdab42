"""`lembas sessions`, where no hub runs."""

import time

import pytest

from lembasd.store.deletes import Deletes
from lembasd.store.journal import Journal
from lembasd.store.records import Created, TitleSet, TurnStarted
from tests.support.command_line import CommandLine

SESSION = "ses_" + "0" * 26
OTHER = "ses_" + "1" * 26


def store(run: CommandLine, session_id: str = SESSION, title: str = "Fix it") -> None:
    run.paths.make()
    journal = Journal.create(run.paths, session_id)
    journal.append(Created(session_id=session_id, root="/project", mode="edit", model="m"))
    journal.append(TitleSet(title=title))
    journal.append(TurnStarted(turn_id="t1"))
    journal.close()


def test_without_sessions_it_says_so(run: CommandLine) -> None:
    assert run.lembas("sessions", "list").out == "there are no sessions yet\n"
    assert run.lembas("sessions", "list", "--json").value == {"sessions": []}


def test_the_list_is_for_a_person_or_a_program(run: CommandLine) -> None:
    store(run, title="\x1b[31mred " + "x" * 60)
    said = run.lembas("sessions", "list").out
    assert said.startswith(f"{SESSION}  {time.strftime('%Y-')}")
    assert said.endswith("  /project\n")
    assert "\x1b" not in said
    assert "x…" in said
    (one,) = run.lembas("sessions", "list", "--json").value["sessions"]
    assert (one["session_id"], one["root"], one["model"], one["turns"], one["pid"]) == (
        SESSION,
        "/project",
        "m",
        1,
        None,
    )


def test_sessions_are_deleted_and_the_instance_is_to_hear_of_it(run: CommandLine) -> None:
    store(run)
    store(run, OTHER)
    done = run.lembas("sessions", "delete", SESSION, OTHER)
    assert (done.code, done.out) == (0, f"{SESSION} is deleted\n{OTHER} is deleted\n")
    assert Deletes(run.paths).kept() == [SESSION, OTHER]
    assert run.lembas("sessions", "list", "--json").value == {"sessions": []}


def test_a_session_that_is_not_there_is_told_and_the_others_are_deleted(run: CommandLine) -> None:
    store(run)
    done = run.lembas("sessions", "delete", OTHER, SESSION, "--json")
    assert done.code == 1
    assert done.err == f"there is no session {OTHER}; see `lembas sessions list`\n"
    assert done.value == {
        "sessions": [
            {"session_id": OTHER, "deleted": False},
            {"session_id": SESSION, "deleted": True},
        ]
    }


@pytest.mark.parametrize("name", ["nonsense", "../../etc", ""])
def test_what_is_no_session_deletes_nothing(run: CommandLine, name: str) -> None:
    store(run)
    done = run.lembas("sessions", "delete", SESSION, name)
    assert (done.code, done.out) == (2, "")
    assert "is no session" in done.err
    assert run.paths.session(SESSION).exists()
