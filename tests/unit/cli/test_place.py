"""Where a screen stands in a terminal's output, and how it is left."""

from lembasd.cli.core.leaving import undo
from lembasd.cli.core.place import ACK_BYTES, Place
from lembasd.pty.core.modes import Modes

PLAIN = b"\x1b\\\x1b[0m"


def test_a_piece_is_acknowledged_once_all_of_it_is_written() -> None:
    place = Place()
    assert place.end is None
    place.came(0, 10)
    place.came(10, 5)
    seen = []
    for count in (4, 6, 5, 0):
        place.written(count)
        seen.append(place.acknowledged())
    assert seen == [None, 10, 15, None]


def test_little_that_was_shown_may_wait_and_much_is_said_at_once() -> None:
    place = Place()
    half = ACK_BYTES // 2
    place.came(0, half)
    place.came(half, half)
    assert [place.written(half), place.written(half)] == [False, True]
    assert place.acknowledged() == ACK_BYTES
    place.came(ACK_BYTES, half)
    assert not place.written(half)


def test_one_write_may_finish_several_pieces() -> None:
    place = Place()
    place.came(0, 10)
    place.came(10, 5)
    place.came(15, 5)
    place.written(16)
    assert place.acknowledged() == 15
    place.written(4)
    assert place.acknowledged() == 20


def test_the_next_hub_goes_on_after_what_came_written_or_not() -> None:
    place = Place()
    place.begins(7)
    assert place.end == 7
    place.came(7, 3)
    assert place.end == 10


def test_what_an_interrupt_left_out_is_not_waited_for() -> None:
    place = Place()
    place.came(0, 10)
    place.came(5000, 10)
    place.written(20)
    assert place.acknowledged() == 5010


def test_a_redraws_beginning_is_no_output() -> None:
    place = Place()
    place.came(100, 12)
    place.came(100, 50)
    place.written(62)
    assert place.acknowledged() == 150
    assert place.end == 150


def left_after(output: bytes) -> bytes:
    modes = Modes()
    modes.feed(output)
    return undo(modes)


def test_a_screen_that_nobody_changed_is_left_as_it_is() -> None:
    assert left_after(b"ls\r\n") == PLAIN
    assert left_after(b"\x1b[?25l\x1b[?25h\x1b[?2004h\x1b[?2004l") == PLAIN


def test_what_a_full_screen_program_set_is_taken_back_its_screen_last() -> None:
    said = left_after(b"\x1b[?1049h\x1b=\x1b[?25l\x1b[?1000;1006h")
    assert said == PLAIN + b"\x1b>\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?1049l"
