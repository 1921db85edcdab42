"""Which processes were left behind by a worker that is gone."""

from lembasd.hub.core.orphans import Carrier, left_behind

OURS = {"ses_a", "ses_b"}


def test_what_has_no_worker_was_left_behind() -> None:
    one, two = Carrier(10, "ses_a", 3), Carrier(11, "ses_b", 1)
    assert left_behind([one, two], OURS, {"ses_b": 1}) == [one]


def test_what_an_earlier_life_of_a_session_left_is_told_from_what_its_worker_runs() -> None:
    earlier, now = Carrier(10, "ses_a", 3), Carrier(11, "ses_a", 4)
    assert left_behind([earlier, now], OURS, {"ses_a": 4}) == [earlier]


def test_nothing_of_a_session_is_touched_while_its_workers_life_cannot_be_told() -> None:
    assert left_behind([Carrier(10, "ses_a", 3)], OURS, {"ses_a": None}) == []


def test_what_is_of_another_install_is_let_be() -> None:
    assert left_behind([Carrier(10, "ses_of_another", 1)], OURS, {}) == []
