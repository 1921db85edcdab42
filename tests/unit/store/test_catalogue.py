"""The list and the search over all sessions: what the journals say, however old the catalogue is."""

import sqlite3
from pathlib import Path

import pytest

from lembasd.device.paths import Paths
from lembasd.protocol.errors import UsageError
from lembasd.protocol.lembas import AssistantTurn, UserTurn
from lembasd.store import catalogue, deleting, listing
from lembasd.store.core.searched import MAX_MESSAGE_CHARS, Passage, passages, query
from tests.support.stored_sessions import go_on, session_id, store


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")


def found(paths: Paths, words: str) -> list[str]:
    return [one.session_id for one in catalogue.search(paths, words)]


def test_the_list_is_that_of_the_journals_before_and_after_each_change(paths: Paths) -> None:
    paths.make()
    assert catalogue.sessions(paths) == []
    first = store(paths, 1, ("hello", "hi"))
    assert catalogue.sessions(paths) == listing.sessions(paths)
    store(paths, 2, ("hello", "hi"), title="Other")
    go_on(paths, first, ("more", "yes"))
    assert catalogue.sessions(paths) == listing.sessions(paths)
    assert [one.turns for one in catalogue.sessions(paths)] in ([2, 1], [1, 2])
    deleting.delete(paths, first, tell=False)
    assert [one.title for one in catalogue.sessions(paths)] == ["Other"]


def test_words_are_found_in_what_was_said_with_what_is_around_them(paths: Paths) -> None:
    first = store(paths, 1, ("Why is the café slow?", "The index is missing."), title="Slow")
    store(paths, 2, ("hello", "The index is there."))
    (one,) = catalogue.search(paths, "Cafe sl")
    assert (one.session_id, one.title, one.role, one.count) == (first, "Slow", "user", 1)
    begin, end = catalogue.MARKS
    assert one.excerpt == f"Why is the {begin}café{end} {begin}slow{end}?"
    assert sorted(found(paths, "index")) == [session_id(1), session_id(2)]
    # in one message, not here and there
    assert found(paths, "café index") == []
    assert catalogue.search(paths, "index", limit=1)[0].count == 1


def test_what_was_said_since_the_last_search_is_found_and_what_is_gone_is_not(
    paths: Paths,
) -> None:
    first = store(paths, 1, ("apples", "pears"))
    assert found(paths, "plums") == []
    go_on(paths, first, ("plums", "cherries"))
    assert found(paths, "plums") == [first]
    assert found(paths, "apples") == [first]
    deleting.delete(paths, first, tell=False)
    assert found(paths, "plums") == []


def test_nothing_of_a_deleted_session_is_left_on_the_disk(paths: Paths) -> None:
    first = store(paths, 1, ("xylophone", "zither"))
    assert found(paths, "xylophone") == [first]
    deleting.delete(paths, first, tell=False)
    assert b"xylophone" not in catalogue.path_of(paths).read_bytes()


def test_a_catalogue_that_cannot_be_used_is_made_anew(paths: Paths) -> None:
    first = store(paths, 1, ("apples", "pears"))
    catalogue.path_of(paths).write_bytes(b"this is no database" * 100)
    assert found(paths, "apples") == [first]
    with sqlite3.connect(catalogue.path_of(paths)) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert found(paths, "apples") == [first]
    assert catalogue.path_of(paths).stat().st_mode & 0o077 == 0


def test_a_journal_that_cannot_be_read_is_left_out_of_the_search(paths: Paths) -> None:
    first, second = store(paths, 1, ("apples", "x")), store(paths, 2, ("apples", "y"))
    journal = paths.session(second) / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    assert found(paths, "apples") == [first]


def test_without_a_place_for_it_the_list_is_read_from_the_journals(paths: Paths) -> None:
    first = store(paths, 1, ("apples", "x"))
    catalogue.path_of(paths).mkdir()
    assert [one.session_id for one in catalogue.sessions(paths)] == [first]
    with pytest.raises(UsageError, match="cannot be searched"):
        catalogue.search(paths, "apples")
    catalogue.forget(paths, first)


def test_a_search_needs_a_word(paths: Paths) -> None:
    with pytest.raises(UsageError, match="no word to search for"):
        catalogue.search(paths, " -* ")


def test_what_a_person_types_is_words_and_no_language() -> None:
    assert query('a "b" OR c*') == '"a" "b" "OR" "c"*'
    assert query("foo_bar.py") == '"foo_bar" "py"*'
    assert query("--") == ""


def test_of_a_history_the_words_are_searched_and_no_outputs() -> None:
    history: list[UserTurn | AssistantTurn] = [
        UserTurn(text="go", turnId="t1"),
        AssistantTurn(text="x" * (MAX_MESSAGE_CHARS + 1), reasoning="hm", tools=[]),
        AssistantTurn(text=" ", reasoning="", tools=[]),
        UserTurn(text="faster"),
    ]
    assert list(passages(history)) == [
        Passage("user", "t1", "go"),
        Passage("assistant", "t1", "x" * MAX_MESSAGE_CHARS),
        Passage("user", "t1", "faster"),
    ]
