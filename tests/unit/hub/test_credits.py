"""Credit for the bytes of a terminal."""

from lembasd.hub.core.credits import Credits

TERMINAL = "term_" + "c" * 12


def test_output_nobody_looks_at_is_credited_at_once() -> None:
    assert Credits().came(TERMINAL, 100, ()) == 100


def test_the_fastest_viewer_sets_the_pace() -> None:
    flows = Credits()
    assert flows.came(TERMINAL, 100, (1, 2)) == 0
    assert flows.taken(TERMINAL, 1, 60) == 60
    assert flows.taken(TERMINAL, 2, 40) == 0
    assert flows.taken(TERMINAL, 2, 60) == 40
    assert flows.taken(TERMINAL, 1, 40) == 0


def test_no_more_is_credited_than_came() -> None:
    flows = Credits()
    flows.came(TERMINAL, 100, (1,))
    assert flows.taken(TERMINAL, 1, 500) == 100


def test_the_last_viewer_that_leaves_frees_what_it_held() -> None:
    flows = Credits()
    flows.came(TERMINAL, 100, (1, 2))
    assert flows.viewer_left(TERMINAL, 1) == 0
    assert flows.viewer_left(TERMINAL, 1) == 0
    assert flows.viewer_left(TERMINAL, 2) == 100


def test_output_for_one_viewer_holds_no_other_up() -> None:
    flows = Credits()
    flows.came(TERMINAL, 100, (1,))
    flows.came(TERMINAL, 50, (2,))
    assert flows.taken(TERMINAL, 1, 100) == 150
    assert flows.came(TERMINAL, 10, (1, 2)) == 0
    assert flows.taken(TERMINAL, 1, 10) == 10


def test_output_for_a_viewer_that_left_credits_nothing_that_others_hold() -> None:
    flows = Credits()
    flows.came(TERMINAL, 100, (1,))
    assert flows.came(TERMINAL, 50, ()) == 50
    assert flows.taken(TERMINAL, 1, 100) == 100


def test_what_is_no_terminal_or_has_ended_has_no_credit() -> None:
    flows = Credits()
    assert flows.taken("ses_x", 1, 5) == 0
    assert flows.viewer_left("ses_x", 1) == 0
    flows.came(TERMINAL, 100, (1,))
    assert flows.taken(TERMINAL, 9, 5) == 0
    flows.ended(TERMINAL)
    assert flows.taken(TERMINAL, 1, 5) == 0
