"""Which names a query means, and in which order."""

import pytest

from lembasd.worker.core.file_index import FileIndex
from lembasd.worker.core.file_ranking import (
    MAX_CONTAINING,
    MAX_RESEMBLING,
    Found,
    Ranking,
    plain_query,
)

NAMES = [
    "README.md",
    "src/",
    "src/hub/",
    "src/hub/router.py",
    "src/hub/route_table.py",
    "src/hub/core_router.py",
    "src/worker/subrouter.py",
    "src/router/table.py",
    "docs/my notes.md",
    "docs/Über uns.md",
    "docs/a\u0308ra.md",
]


def ranking(*names: str) -> Ranking:
    return Ranking(FileIndex(name.encode() for name in names or NAMES))


def paths(query: str, *, limit: int = 20, **used: float) -> list[str]:
    return [found.path for found in ranking().rank(query, used, limit)]


def test_a_whole_name_comes_before_its_beginning_a_word_a_part_and_a_directory() -> None:
    assert paths("router") == [
        "src/hub/router.py",
        "src/hub/core_router.py",
        "src/worker/subrouter.py",
        "src/router/table.py",
    ]
    assert paths("router.py")[0] == "src/hub/router.py"
    assert paths("rou", limit=2) == ["src/hub/router.py", "src/hub/route_table.py"]


def test_a_directory_is_said_to_be_one() -> None:
    assert ranking().rank("hub", {}, 1) == [Found("src/hub", "dir")]
    assert ranking().rank("src/hub/rou", {}, 1) == [Found("src/hub/router.py", "file")]
    assert paths("src/", limit=1) == ["src"]


def test_letters_in_their_order_find_a_name_and_best_where_they_are_all_in_its_last_part() -> None:
    assert paths("rttbl") == ["src/hub/route_table.py", "src/router/table.py"]
    assert paths("hubrtpy") == [
        "src/hub/router.py",
        "src/hub/core_router.py",
        "src/hub/route_table.py",
    ]


def test_a_misspelled_name_is_found_where_nothing_else_is() -> None:
    assert paths("subruoter") == ["src/worker/subrouter.py", "src/hub/router.py"]
    assert paths("raedme") == ["README.md"]
    assert paths("xyz") == []
    assert paths("nothing-like-it") == []


def test_case_does_not_matter_beyond_ascii_either() -> None:
    assert paths("readme") == ["README.md"]
    assert paths("ÜBER") == ["docs/Über uns.md"]
    assert paths("übuns") == ["docs/Über uns.md"]


def test_a_name_is_found_composed_or_decomposed() -> None:
    assert paths("ära") == ["docs/a\u0308ra.md"]


def test_an_empty_query_gives_what_was_used_most_lately() -> None:
    used = {"src/router/table.py": 1.0, "README.md": 3.0, "gone.py": 9.0, "src/": 2.0}
    found = ranking().rank(" ", used, 20)
    assert found == [
        Found("README.md", "file"),
        Found("src", "dir"),
        Found("src/router/table.py", "file"),
    ]
    assert ranking().rank("", used, 1) == found[:1]
    assert paths("") == []


def test_what_was_used_comes_before_its_like_and_not_before_what_was_asked_for() -> None:
    used = {"src/worker/subrouter.py": 5.0}
    order = [found.path for found in ranking().rank("router", used, 3)]
    assert order == [
        "src/hub/router.py",
        "src/worker/subrouter.py",
        "src/hub/core_router.py",
    ]
    assert [found.path for found in ranking().rank("readme", used, 3)] == ["README.md"]


def test_what_was_used_is_found_behind_any_number_of_others() -> None:
    many = ranking(*(f"a{number}" for number in range(MAX_CONTAINING)), "deep/down/a-used")
    used = {"deep/down/a-used": 9.0, "a1": 0.1}
    assert [found.path for found in many.rank("a", used, 2)] == ["deep/down/a-used", "a1"]
    assert [found.path for found in many.rank("a", {"other": 9.0}, 2)] == ["a0", "a1"]


def test_what_was_used_and_holds_the_letters_comes_last_where_others_hold_the_query() -> None:
    some = ranking("art", "r/t", "x")
    used = {"r/t": 9.0, "x": 9.0}
    assert [found.path for found in some.rank("rt", used, 1)] == ["art"]
    assert [found.path for found in some.rank("rt", used, 5)] == ["art", "r/t"]


def test_a_longer_query_looks_only_where_the_shorter_was_found() -> None:
    looking = ranking()
    assert len(looking.rank("srtb", {}, 5)) == 2
    assert [found.path for found in looking.rank("srtbpy", {}, 5)] == [
        "src/router/table.py",
        "src/hub/route_table.py",
    ]
    assert [found.path for found in looking.rank("hubrtpy", {}, 1)] == ["src/hub/router.py"]


def test_where_too_many_hold_the_letters_the_longer_query_looks_again() -> None:
    names = [f"x{number}/ab".encode() for number in range(MAX_RESEMBLING)]
    looking = Ranking(FileIndex([*names, b"some-where/else/a-b-and-c.py"]))
    assert len(looking.rank("xb", {}, 50)) == 50
    assert looking.rank("abc", {}, 50) == [Found("some-where/else/a-b-and-c.py", "file")]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("src/a.py", "src/a.py"),
        ("./src", "src"),
        ("my\\ notes", "my notes"),
        ("a\\#b.md", "a#b.md"),
        ("c.md#10-20", "c.md"),
        ("c.md#", "c.md"),
        ("c#x", "c#x"),
        ("a\0b", "ab"),
    ],
)
def test_what_is_typed_is_read_as_a_prompt_would_be(typed: str, meant: str) -> None:
    assert plain_query(typed) == meant
    assert ranking().rank("my\\ notes", {}, 5) == [Found("docs/my notes.md", "file")]
