"""What a ledger says of turn ids."""

import pytest

from lembasd.protocol.limits import TURN_IDS_KEPT
from lembasd.store.core.ledger import Answer, Ledger, Turn, merge, rebuilt

DONE = Answer(stop_reason="end_turn")
CANCELLED = Answer(stop_reason="cancelled")


def test_an_id_is_accepted_once() -> None:
    ledger = Ledger()
    assert ledger.accept("a", 1.0)
    assert not ledger.accept("a", 2.0)
    assert ledger.find("a") == Turn("a", 1.0)


def test_an_id_starts_once_and_not_after_its_end() -> None:
    ledger = Ledger()
    ledger.accept("a", 1.0)
    assert ledger.start("a", 2.0)
    assert not ledger.start("a", 3.0)
    ledger.end("a", DONE, 4.0)
    assert not ledger.start("a", 5.0)


def test_the_first_answer_stays() -> None:
    ledger = Ledger()
    ledger.accept("a", 1.0)
    assert ledger.end("a", DONE, 2.0)
    assert not ledger.end("a", CANCELLED, 3.0)
    assert ledger.find("a") == Turn("a", 1.0, "done", DONE, 2.0)


def test_a_start_or_an_end_without_its_acceptance_still_makes_the_id_known() -> None:
    ledger = Ledger()
    ledger.start("a", 1.0)
    ledger.end("b", DONE, 2.0)
    assert ledger.turns == {
        "a": Turn("a", 1.0, "running"),
        "b": Turn("b", 2.0, "done", DONE, 2.0),
    }


def test_an_acceptance_that_was_never_written_is_forgotten() -> None:
    ledger = Ledger()
    ledger.accept("a", 1.0)
    ledger.forget("a")
    assert ledger.accept("a", 2.0)


def test_what_waits_what_runs_and_what_ended_last() -> None:
    ledger = Ledger()
    assert not ledger.last_done
    for turn_id in "abcd":
        ledger.accept(turn_id, 1.0)
    ledger.start("b", 2.0)
    ledger.end("c", DONE, 4.0)
    ledger.end("d", DONE, 3.0)
    assert (ledger.queued, ledger.running, ledger.last_done) == (["a"], ["b"], "c")


@pytest.mark.spec("turn ids: 200 are kept")
def test_the_oldest_finished_ids_are_forgotten_and_a_waiting_one_never() -> None:
    ledger = Ledger()
    ledger.accept("waits", 0.0)
    for number in range(TURN_IDS_KEPT + 5):
        ledger.accept(f"t{number}", 1.0 + number)
        ledger.end(f"t{number}", DONE, 1.0 + number)
    assert len(ledger.turns) == TURN_IDS_KEPT
    assert ledger.find("waits") is not None
    assert ledger.find("t5") is None
    assert ledger.find("t6") is not None


def test_merging_takes_the_further_state_and_the_earlier_answer() -> None:
    one = Ledger({"a": Turn("a", 2.0, "running"), "b": Turn("b", 1.0, "done", CANCELLED, 9.0)})
    other = Ledger(
        {"a": Turn("a", 3.0), "b": Turn("b", 1.5, "done", DONE, 8.0), "c": Turn("c", 0.5)}
    )
    expected = {
        "c": Turn("c", 0.5),
        "b": Turn("b", 1.0, "done", DONE, 8.0),
        "a": Turn("a", 2.0, "running"),
    }
    assert merge(one, other).turns == expected
    assert merge(other, one).turns == expected


@pytest.mark.spec("turn ids: kept over a restart")
def test_at_open_the_journal_wins_and_lost_answers_come_from_the_turns_file() -> None:
    journal = Ledger({"a": Turn("a", 2.0, "done", DONE, 3.0), "b": Turn("b", 4.0, "running")})
    kept = Ledger(
        {
            "a": Turn("a", 2.0, "done", CANCELLED, 3.0),
            "b": Turn("b", 4.0, "done", CANCELLED, 5.0),
            "z": Turn("z", 1.0, "done", DONE, 1.0),
            "q": Turn("q", 1.0),
        }
    )
    assert rebuilt(journal, kept).turns == {
        "z": Turn("z", 1.0, "done", DONE, 1.0),
        "a": Turn("a", 2.0, "done", DONE, 3.0),
        "b": Turn("b", 4.0, "done", CANCELLED, 5.0),
    }
