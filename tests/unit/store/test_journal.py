"""A journal on a real disk."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lembasd.device.paths import Paths
from lembasd.store import journal as journals
from lembasd.store import lines, sessions, turns
from lembasd.store.core.ledger import Answer, Ledger, Turn
from lembasd.store.journal import Journal, JournalNewer, NoSession, SessionLocked
from lembasd.store.records import (
    JOURNAL_FORMAT,
    AnyRecord,
    Created,
    Opened,
    TitleSet,
    TurnEnded,
)

SESSION = "ses_" + "0" * 26


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    found.make()
    return found


def titles(records: list[AnyRecord]) -> list[str]:
    return [record.title for record in records if isinstance(record, TitleSet)]


def file_of(paths: Paths) -> Path:
    return paths.session(SESSION) / "journal.jsonl"


def made(paths: Paths, *names: str) -> None:
    journal = Journal.create(paths, SESSION)
    for name in names:
        journal.append(TitleSet(title=name))
    journal.close()


async def test_what_was_appended_is_read_again_with_its_time(paths: Paths) -> None:
    journal = Journal.create(paths, SESSION)
    journal.append(TitleSet(title="one"))
    await journal.sync()
    journal.close()
    journal.close()
    again = Journal.open(paths, SESSION)
    records = again.release_records()
    again.close()
    assert titles(records) == ["one"]
    assert records[0].t > 1e9
    assert again.records == []


def test_a_session_is_made_once(paths: Paths) -> None:
    made(paths)
    with pytest.raises(FileExistsError):
        Journal.create(paths, SESSION)


def test_a_session_that_is_not_there_cannot_be_opened_or_read(paths: Paths) -> None:
    with pytest.raises(NoSession):
        Journal.open(paths, SESSION)
    with pytest.raises(NoSession):
        journals.read(paths, SESSION)


def test_a_session_has_one_holder_and_its_lock_says_who(paths: Paths) -> None:
    journal = Journal.create(paths, SESSION)
    with pytest.raises(SessionLocked) as locked:
        Journal.open(paths, SESSION)
    assert locked.value.pid == os.getpid()
    assert sessions.probe(paths, SESSION) == sessions.Probe(exists=True, locked_by=os.getpid())
    journal.close()
    assert sessions.probe(paths, SESSION) == sessions.Probe(exists=True)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs the kernel's list of locks")
def test_what_somebody_wrote_into_a_lock_makes_nobody_its_holder(paths: Paths) -> None:
    journal = Journal.create(paths, SESSION)
    lock = paths.session(SESSION) / "lock"
    for text in (f"{os.getppid()}\n", "", "words"):
        lock.write_text(text)
        assert sessions.probe(paths, SESSION).locked_by == os.getpid()
    journal.close()


def test_a_tool_that_is_started_does_not_keep_the_lock(paths: Paths) -> None:
    journal = Journal.create(paths, SESSION)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as tool:
        journal.close()
        Journal.open(paths, SESSION).close()
        tool.communicate()


def test_a_torn_last_line_is_dropped_and_never_seen_again(paths: Paths) -> None:
    made(paths, "one")
    with file_of(paths).open("ab") as file:
        file.write(b'{"type":"title","ti')
    journal = Journal.open(paths, SESSION)
    journal.append(TitleSet(title="two"))
    journal.close()
    loaded = journals.read(paths, SESSION)
    assert (titles(loaded.records), loaded.damaged) == (["one", "two"], [])


def test_a_damaged_line_is_set_aside_once_and_the_rest_is_kept(paths: Paths) -> None:
    made(paths, "one")
    with file_of(paths).open("ab") as file:
        file.write(b'garbage\n\n{"type":"title"}\n{"no":"type"}\n')
    for _ in range(2):
        journal = Journal.open(paths, SESSION)
        assert (titles(journal.records), journal.damaged) == (["one"], 3)
        journal.close()
    aside = (paths.session(SESSION) / "journal.damaged").read_bytes()
    assert len(aside.splitlines()) == 3
    assert b"garbage" in file_of(paths).read_bytes()


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (b'{"type":"opened","epoch":2,"build":"9.9","format":2}\n', r" \(9\.9\)"),
        (
            b'{"type":"created","session_id":"s","root":"/","mode":"edit","model":"m","format":2}\n',
            "",
        ),
    ],
)
def test_what_a_newer_version_has_worked_on_is_not_opened_nor_changed(
    paths: Paths, line: bytes, who: str
) -> None:
    made(paths, "one")
    with file_of(paths).open("ab") as file:
        file.write(line + b'{"what":"is new"}\n{"half')
    before = file_of(paths).read_bytes()
    for _ in range(2):  # nor is its lock kept
        with pytest.raises(JournalNewer, match=f"a newer version of lembasd{who} has worked on"):
            Journal.open(paths, SESSION)
    assert file_of(paths).read_bytes() == before
    assert not (paths.session(SESSION) / "journal.damaged").exists()


def test_the_form_of_a_journal_is_written_into_it(paths: Paths) -> None:
    """What is left out as a default would be read as the reader's own, which may be another build's."""
    made(paths)
    lives = [
        Created(session_id="s", root="/", mode="edit", model="m", format=7),
        Opened(epoch=1, build="b", format=7),
    ]
    for one in lives:
        assert msgspec.json.decode(lines.encode(one))["format"] == 7
    assert (Opened(epoch=1, build="b").format, JOURNAL_FORMAT) == (1, 1)


def test_a_record_of_a_type_that_is_not_known_is_kept_and_skipped(paths: Paths) -> None:
    made(paths, "one")
    with file_of(paths).open("ab") as file:
        file.write(b'{"type":"of the future","x":1}\n')
    journal = Journal.open(paths, SESSION)
    assert (titles(journal.records), journal.damaged) == (["one"], 0)
    journal.close()
    assert b"of the future" in file_of(paths).read_bytes()


def test_a_write_that_fails_half_way_leaves_the_journal_as_it_was(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(paths, SESSION)
    journal.append(TitleSet(title="one"))
    write, calls = os.write, 0

    def full_after_ten(handle: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return write(handle, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("lembasd.store.journal.os.write", full_after_ten)
        with pytest.raises(OSError, match="No space"):
            journal.append(TitleSet(title="two"))
    journal.append(TitleSet(title="three"))
    journal.close()
    loaded = journals.read(paths, SESSION)
    assert (titles(loaded.records), loaded.damaged) == (["one", "three"], [])


def test_half_a_line_that_cannot_be_cut_off_damages_no_other(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(paths, SESSION)
    write, calls = os.write, 0

    def full_after_ten(handle: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return write(handle, data[:10])
        raise OSError(28, "No space left on device")

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr("lembasd.store.journal.os.write", full_after_ten)
        broken.setattr("lembasd.store.journal.os.ftruncate", fails)
        with pytest.raises(OSError, match="No space"):
            journal.append(TitleSet(title="one"))
    journal.append(TitleSet(title="two"))
    journal.close()
    loaded = journals.read(paths, SESSION)
    assert (titles(loaded.records), len(loaded.damaged)) == (["two"], 1)


def no_space(*_: object) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("then", ["append", "close"])
def test_what_is_owed_is_written_as_soon_as_there_is_room(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    journal = Journal.create(paths, SESSION)
    with monkeypatch.context() as full:
        full.setattr("lembasd.store.journal.os.write", no_space)
        journal.owe(TitleSet(title="one"))
        journal.owe(TitleSet(title="two"))
        with pytest.raises(OSError, match="No space"):
            journal.append(TitleSet(title="three"))
    if then == "append":
        journal.append(TitleSet(title="four"))
    journal.close()
    written = titles(journals.read(paths, SESSION).records)
    assert written == (["one", "two", "four"] if then == "append" else ["one", "two"])


def test_what_is_owed_and_never_had_room_harms_nothing(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(paths, SESSION)
    journal.append(TitleSet(title="one"))
    with monkeypatch.context() as full:
        full.setattr("lembasd.store.journal.os.write", no_space)
        journal.owe(TitleSet(title="two"))
        journal.close()
    assert titles(journals.read(paths, SESSION).records) == ["one"]


def test_a_session_that_could_not_be_made_leaves_no_journal(paths: Paths) -> None:
    Journal.create(paths, SESSION).discard()
    assert not sessions.probe(paths, SESSION).exists


def test_what_is_no_session_id_is_not_looked_for(paths: Paths) -> None:
    assert sessions.probe(paths, "../../etc") == sessions.Probe(exists=False)


def test_sessions_are_listed_by_their_ids(paths: Paths) -> None:
    assert sessions.listed(paths) == []
    made(paths)
    (paths.sessions / "lost+found").mkdir()
    assert sessions.listed(paths) == [SESSION]


DONE = Turn("a", 1.0, "done", Answer(stop_reason="end_turn"), 2.0)


def test_the_turns_file_is_merged_with_what_is_there(paths: Paths) -> None:
    path = turns.path_of(paths, SESSION)
    other = Turn("b", 3.0, "done", Answer(stop_reason="cancelled"), 4.0)
    turns.save(path, Ledger({"a": DONE, "q": Turn("q", 1.0)}))
    turns.save(path, Ledger({"b": other}))
    assert turns.load(path) == Ledger({"a": DONE, "b": other})
    turns.rebuild(path, Ledger({"b": other}))
    assert turns.load(path) == Ledger({"b": other})
    assert [one.name for one in paths.turns.iterdir()] == [f"{SESSION}.json"]


def test_a_turns_file_that_cannot_be_read_is_as_good_as_none(paths: Paths) -> None:
    path = turns.path_of(paths, SESSION)
    assert turns.load(path) == Ledger({})
    path.write_text("{")
    assert turns.load(path) == Ledger({})


def test_turns_files_that_nobody_touched_for_a_month_are_removed(paths: Paths) -> None:
    path = turns.path_of(paths, SESSION)
    turns.save(path, Ledger({"a": DONE}))
    written = path.stat().st_mtime
    assert turns.prune(paths, written + turns.KEPT_S - 1) == 0
    assert turns.prune(paths, written + turns.KEPT_S + 1) == 1
    assert not path.exists()


def test_an_end_that_is_owed_is_written_before_anything_else(paths: Paths) -> None:
    journal = Journal.create(paths, SESSION)
    journal.owe(TurnEnded(turn_id="t1", stop_reason="cancelled"))
    journal.owe(TurnEnded(turn_id="t2", stop_reason="cancelled"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.append(TitleSet(title="one"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for title in ("two", "three"):
        journal.append(TitleSet(title=title))
    journal.close()
    records = journals.read(paths, SESSION).records
    assert [one.turn_id for one in records if isinstance(one, TurnEnded)] == ["t1", "t2"]
    assert isinstance(records[1], TurnEnded)
    assert titles(records) == ["two", "three"]
