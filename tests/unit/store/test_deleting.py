"""What is left of a session that is deleted: nothing, whenever the deletion was cut off."""

import os
from pathlib import Path

import pytest

from lembasd.device.paths import Paths
from lembasd.store import deletes, deleting, listing, turns
from lembasd.store.deletes import Deletes
from lembasd.store.journal import Journal, NoSession, SessionLocked
from lembasd.store.records import Created, SettingSet, TitleSet, TurnStarted

SESSION = "ses_" + "0" * 26
OTHER = "ses_" + "1" * 26


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    found.make()
    return found


def store(paths: Paths, session_id: str = SESSION) -> Journal:
    """A session with everything a session can have."""
    journal = Journal.create(paths, session_id)
    journal.append(Created(session_id=session_id, root="/project", mode="edit", model="m"))
    (paths.attachments / session_id).mkdir(parents=True)
    (paths.attachments / session_id / "a.png").write_bytes(b"x")
    (paths.session(session_id) / "images").mkdir()
    turns.path_of(paths, session_id).write_text("[]")
    return journal


def left(paths: Paths) -> list[Path]:
    return [one for one in paths.state.rglob("*") if SESSION in one.name]


def test_all_of_it_goes_and_nothing_of_another(paths: Paths) -> None:
    store(paths).close()
    store(paths, OTHER).close()
    deleting.delete(paths, SESSION, tell=False)
    assert left(paths) == []
    assert (paths.attachments / OTHER / "a.png").exists()
    with pytest.raises(NoSession):
        deleting.delete(paths, SESSION, tell=False)
    Journal.open(paths, OTHER).close()


def test_a_session_that_somebody_has_open_stays(paths: Paths) -> None:
    journal = store(paths)
    with pytest.raises(SessionLocked):
        deleting.delete(paths, SESSION, tell=True)
    journal.close()
    Journal.open(paths, SESSION).close()
    assert Deletes(paths).kept() == []


def test_who_waited_for_the_lock_of_a_deleted_session_finds_none(paths: Paths) -> None:
    journal = store(paths)
    deleting.remove(paths, SESSION, tell=False)
    journal.close()
    with pytest.raises(NoSession):
        Journal.open(paths, SESSION)


def test_the_word_of_a_delete_is_kept_until_it_was_told(paths: Paths) -> None:
    kept = Deletes(paths)
    assert kept.kept() == []
    store(paths).close()
    deletes.keep(paths, SESSION)  # a death right after it
    assert kept.kept() == []
    deleting.delete(paths, SESSION, tell=True)
    assert kept.kept() == [SESSION]
    kept.forget(SESSION)
    kept.forget(SESSION)
    assert kept.kept() == []


def test_what_a_death_left_is_swept(paths: Paths) -> None:
    store(paths).close()
    store(paths, OTHER).close()
    paths.session(SESSION).rename(paths.sessions / f".deleted-{SESSION}")
    (paths.turns / "strange").write_text("")
    deleting.sweep(paths)
    assert left(paths) == []
    assert (paths.turns / "strange").exists()
    assert turns.path_of(paths, OTHER).exists()
    Journal.open(paths, OTHER).close()


def test_a_session_that_cannot_be_removed_stays(paths: Paths) -> None:
    store(paths).close()
    (paths.sessions / f".deleted-{SESSION}").write_text("in the way")
    with pytest.raises(NotADirectoryError):
        deleting.delete(paths, SESSION, tell=False)
    Journal.open(paths, SESSION).close()


def test_the_list_says_what_each_session_is(paths: Paths) -> None:
    journal = store(paths)
    journal.append(TitleSet(title="Fix it"))
    journal.append(SettingSet(key="model", value="other"))
    journal.append(SettingSet(key="effort", value="low"))
    journal.append(TurnStarted(turn_id="t1"))
    store(paths, OTHER).close()
    with (paths.session(OTHER) / "journal.jsonl").open("ab") as file:
        file.write(b'{"type":"title"\n')
    os.utime(paths.session(OTHER) / "journal.jsonl", (1.0, 1.0))
    (paths.sessions / ("ses_" + "2" * 26)).mkdir()
    first, second = listing.sessions(paths)
    assert (first.session_id, first.title, first.root, first.model, first.turns, first.pid) == (
        SESSION,
        "Fix it",
        "/project",
        "other",
        1,
        os.getpid(),
    )
    assert (second.session_id, second.title, second.changed, second.pid) == (OTHER, "", 1.0, None)
    journal.close()


def test_a_journal_that_cannot_be_read_is_listed_by_its_id(paths: Paths) -> None:
    (paths.session(SESSION) / "journal.jsonl").mkdir(parents=True)
    (one,) = listing.sessions(paths)
    assert (one.session_id, one.root, one.changed) == (SESSION, "", 0.0)
