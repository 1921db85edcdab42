"""When a line that comes again and again is left out."""

from lembasd.device.core.repeats import MAX_KINDS, MAX_LINES, WINDOW_S, Heard, Repeats


def test_a_kind_of_line_is_written_up_to_its_bound_and_the_last_one_is_marked() -> None:
    repeats = Repeats()
    heard = [repeats.hear("a", 1.0) for _ in range(MAX_LINES + 2)]
    assert heard[:-3] == [Heard(written=True)] * (MAX_LINES - 1)
    assert heard[-3:] == [
        Heard(written=True, last=True),
        Heard(written=False),
        Heard(written=False),
    ]


def test_the_first_line_of_the_next_window_says_how_many_were_left_out() -> None:
    repeats = Repeats()
    for _ in range(MAX_LINES + 5):
        repeats.hear("a", 0.0)
    assert repeats.hear("a", WINDOW_S) == Heard(written=True, left_out=5)
    assert repeats.hear("a", WINDOW_S) == Heard(written=True)


def test_other_kinds_are_counted_by_themselves() -> None:
    repeats = Repeats()
    for _ in range(MAX_LINES + 1):
        repeats.hear("a", 0.0)
    assert repeats.hear("b", 0.0) == Heard(written=True)


def test_with_too_many_kinds_all_are_counted_anew() -> None:
    repeats = Repeats()
    for _ in range(MAX_LINES + 1):
        repeats.hear(0, 0.0)
    for kind in range(1, MAX_KINDS):
        repeats.hear(kind, 0.0)
    assert repeats.hear(0, 0.0) == Heard(written=False)
    repeats.hear(MAX_KINDS, 0.0)
    assert repeats.hear(0, 0.0) == Heard(written=True)
