"""What is to go: by age, then by size, and never of what is open."""

from typing import Any

import pytest
from msgspec.structs import replace

from lembasd.protocol.retention import DAY_S, Retention
from lembasd.store.core.retention import Drop, Plan, Stored, is_doubtful, is_due, plan, selected

NOW = 1000 * DAY_S
ALL = Retention(
    sessions_s=90 * DAY_S,
    attachments_s=60 * DAY_S,
    undo_s=30 * DAY_S,
    damaged_s=10 * DAY_S,
    max_bytes=10**6,
)


def session(name: str, days: float, **fields: Any) -> Stored:
    """One that has not changed for so many days, with a bit of everything."""
    full = {"total_bytes": 1000, "attachments_bytes": 300, "undo_bytes": 200, "damaged_bytes": 10}
    at = NOW - days * DAY_S
    return Stored(session_id=name, changed=at, damaged_at=at, **{**full, **fields})


def test_by_default_no_session_and_no_file_of_a_prompt_ever_goes() -> None:
    kept = Retention()
    assert (kept.sessions_s, kept.attachments_s) == (None, None)
    old = session("old", 999)
    assert plan([old], kept, NOW).drops == [Drop("old", "undo", 200), Drop("old", "damaged", 10)]


def test_each_part_goes_at_its_age() -> None:
    stored = [session(f"{days}", days) for days in (9, 11, 31, 61, 91)]
    assert plan(stored, ALL, NOW) == Plan(
        drops=[
            Drop("11", "damaged", 10),
            Drop("31", "undo", 200),
            Drop("31", "damaged", 10),
            Drop("61", "attachments", 300),
            Drop("61", "undo", 200),
            Drop("61", "damaged", 10),
            Drop("91", "session", 1000),
        ],
        left_bytes=5000 - 10 - 210 - 510 - 1000,
        over=False,
    )


def test_a_part_that_is_not_there_is_not_dropped() -> None:
    bare = session("bare", 80, attachments_bytes=0, undo_bytes=0, damaged_bytes=0)
    assert plan([bare], ALL, NOW).drops == []


def test_nothing_of_an_open_session_goes_and_it_counts_all_the_same() -> None:
    stored = [session("open", 999, is_open=True, total_bytes=2 * 10**6)]
    assert plan(stored, ALL, NOW) == Plan([], 2 * 10**6, over=True)


def test_over_the_size_undo_goes_the_oldest_first_and_no_more_than_needed() -> None:
    stored = [session("new", 1), session("old", 3), session("older", 4, undo_bytes=0)]
    assert plan(stored, replace(ALL, max_bytes=2800), NOW) == Plan(
        [Drop("old", "undo", 200)], 2800, over=False
    )


def test_what_is_left_over_the_size_is_said_and_not_taken() -> None:
    stored = [session("one", 1), session("two", 40)]
    assert plan(stored, replace(ALL, max_bytes=1), NOW) == Plan(
        [Drop("two", "undo", 200), Drop("two", "damaged", 10), Drop("one", "undo", 200)],
        1590,
        over=True,
    )


def test_when_the_clock_is_doubtful_nothing_goes_by_age() -> None:
    assert plan([session("old", 999)], ALL, NOW, by_age=False) == Plan([], 1000, over=False)


@pytest.mark.parametrize(
    ("last", "due", "doubtful"),
    [
        (None, True, False),
        (NOW - 10, False, False),
        (NOW - DAY_S, True, False),
        (NOW - 31 * DAY_S, True, True),
        (NOW + 10, True, False),
    ],
)
def test_it_is_due_once_a_day_and_a_long_time_is_doubtful(
    last: float | None, due: bool, doubtful: bool
) -> None:
    assert (is_due(NOW, last, DAY_S), is_doubtful(NOW, last)) == (due, doubtful)


def test_a_session_is_selected_by_all_that_is_asked_for() -> None:
    small, large = session("small", 50), session("large", 40, total_bytes=5000)
    new, open_one = session("new", 1, total_bytes=9000), session("open", 60, is_open=True)
    stored = [new, small, open_one, large]
    assert selected(stored, NOW, older_s=30 * DAY_S) == [small, large]
    assert selected(stored, NOW, larger_bytes=1000) == [large, new]
    assert selected(stored, NOW, older_s=30 * DAY_S, larger_bytes=1000) == [large]
    assert selected(stored, NOW, keep=2) == [small]
    assert selected(stored, NOW, keep=9) == []
    assert selected(stored, NOW) == [small, large, new]
