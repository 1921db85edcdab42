"""What is kept of a terminal's output, and what a newcomer is put into."""

import pytest

from lembasd.pty.core.modes import MAX_MODES, Modes
from lembasd.pty.core.record import (
    MAX_PIECES,
    MAX_TORN_LINE_BYTES,
    PIECE_BYTES,
    REDRAW_BYTES,
    RESET,
    Record,
    Size,
)

SIZE = Size(80, 24)


def record(*parts: bytes, bound: int = 4 * PIECE_BYTES) -> Record:
    one = Record(SIZE, bound)
    for part in parts:
        one.add(part)
    return one


def test_what_was_written_is_read_by_its_offset() -> None:
    one = record(b"0123", b"4567", b"89")
    assert (one.start, one.end) == (0, 10)
    assert one.read(0, 100) == (b"0123456789", SIZE)
    assert one.read(3, 4) == (b"3456", SIZE)
    assert one.read(10, 5) == (b"", SIZE)


def test_a_read_goes_on_over_pieces_and_ends_where_the_size_changes() -> None:
    one = record(b"a" * PIECE_BYTES, b"b" * 10)
    one.resize(SIZE)
    one.add(b"c")
    one.resize(Size(100, 30))
    one.resize(Size(90, 30))
    one.add(b"wide")
    assert one.read(PIECE_BYTES - 2, 5) == (b"aabbb", SIZE)
    assert one.read(PIECE_BYTES + 8, 50) == (b"bbc", SIZE)
    assert one.read(PIECE_BYTES + 11, 50) == (b"wide", Size(90, 30))
    assert one.before(PIECE_BYTES + 13, 6) == b"bbbcwi"[-6:]
    assert one.before(0, 6) == b""
    assert record().before(0, 6) == b""


def test_the_oldest_are_forgotten() -> None:
    one = record(*[bytes([65 + n]) * PIECE_BYTES for n in range(7)])
    assert one.start == 3 * PIECE_BYTES
    assert one.read(one.start, 1) == (b"D", SIZE)
    assert one.before(one.end, 1 << 30).startswith(b"D")


def test_a_storm_of_resizes_costs_the_oldest_output() -> None:
    one = Record(SIZE)
    for cols in range(3 * MAX_PIECES):
        one.resize(Size(20 + cols % 300, 24))
        one.add(b"x")
    assert (one.start, one.end) == (2 * MAX_PIECES, 3 * MAX_PIECES)


def test_a_redraw_is_the_whole_of_a_short_record() -> None:
    assert record(b"ab\ncd").redraw() == (0, RESET)


def test_a_redraw_begins_with_a_whole_line_where_one_is_near() -> None:
    one = record(b"x" * 100 + b"\n" + b"y" * REDRAW_BYTES, bound=2 * REDRAW_BYTES)
    assert one.redraw() == (101, RESET)
    long = record(b"x" * (REDRAW_BYTES + MAX_TORN_LINE_BYTES), bound=2 * REDRAW_BYTES)
    assert long.redraw() == (MAX_TORN_LINE_BYTES, RESET)


def test_a_redraw_begins_in_the_modes_that_hold_there() -> None:
    one = Record(SIZE, 2 * REDRAW_BYTES)
    one.add(b"\x1b[?1000h\x1b[?1049h\x1b[?25l")
    one.add(b"long ago" * REDRAW_BYTES)
    one.add(b"\x1b[?25h")
    one.add(b"\n" + b"z" * REDRAW_BYTES)
    offset, prelude = one.redraw()
    assert offset == one.end - REDRAW_BYTES
    assert prelude == RESET + b"\x1b[?1049h\x1b[?1000h\x1b[?25h"


@pytest.mark.parametrize(
    ("output", "sequence"),
    [
        (b"", b""),
        (b"text\x1b[31m", b""),
        (b"\x1b[?1h\x1b=", b"\x1b[?1h\x1b="),
        (b"\x1b[?1h\x1b=\x1b[?1l\x1b>", b"\x1b[?1l\x1b>"),
        (b"\x1b[?1002;1006h", b"\x1b[?1002h\x1b[?1006h"),
        (b"\x1b[?;7h", b"\x1b[?7h"),
        (b"\x1b[?1h\x1b=\x1bc", b""),
        (b"\x1b[?1h\x1b[!p", b""),
        (b"\x1b[?2026h", b""),
        (b"\x1b[?7l\x1b[?47h", b"\x1b[?47h\x1b[?7l"),
    ],
)
def test_modes_that_a_program_set_are_told_whatever_way_they_were_cut(
    output: bytes, sequence: bytes
) -> None:
    for cut in range(len(output) + 1):
        modes = Modes()
        modes.feed(output[:cut])
        other = modes.copy()
        modes.feed(b"\x1b[?999h")
        other.feed(output[cut:])
        assert other.sequence() == sequence


def test_modes_are_bounded() -> None:
    modes = Modes()
    modes.feed(b"".join(b"\x1b[?%dh" % number for number in range(2 * MAX_MODES)))
    assert modes.sequence().count(b"h") == MAX_MODES


def test_modes_beyond_the_bound_do_not_hide_what_is_set_later() -> None:
    modes = Modes()
    modes.feed(b"\x1b[?1049h")
    modes.feed(b"".join(b"\x1b[?%dh" % number for number in range(2000, 2000 + 2 * MAX_MODES)))
    modes.feed(b"\x1b[?1049l\x1b[?1l\x1b[?2004l")
    told = modes.sequence()
    assert told.count(b"\x1b[?") == MAX_MODES
    # one told last is one that a program sets now
    assert told.endswith(b"\x1b[?1l\x1b[?2004l")
    assert b"\x1b[?1049h" not in told
    assert b"\x1b[?1049l" in told
