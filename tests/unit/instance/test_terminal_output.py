"""What is kept of a terminal's output, and what its device is told of it."""

import pytest

from lembasd.instance.core.terminal_output import (
    MAX_KEPT_BYTES,
    MAX_OUTPUT_BYTES,
    RESET,
    TerminalOutput,
)

CHUNK = b"x" * (MAX_OUTPUT_BYTES // 4)


@pytest.fixture
def output() -> TerminalOutput:
    return TerminalOutput()


def test_output_is_kept_and_read_from_anywhere(output: TerminalOutput) -> None:
    output.add(b"one ", 0)
    output.add(b"two", 4)
    assert (output.total, output.offset, output.kept()) == (7, 7, b"one two")
    assert (output.read(4, 2), output.read(7, 2)) == (b"tw", b"")


def test_a_device_that_says_no_offset_is_told_none(output: TerminalOutput) -> None:
    output.add(RESET + b"one")
    assert (output.offset, output.acknowledge(), output.kept()) == (None, None, RESET + b"one")


def test_what_nobody_looks_at_is_acknowledged_at_once_and_its_oldest_forgotten(
    output: TerminalOutput,
) -> None:
    for number in range(5):
        output.add(CHUNK, number * len(CHUNK))
    assert output.acknowledge() == 5 * len(CHUNK)
    assert output.acknowledge() is None
    assert (output.start, len(output.kept()), output.is_whole) == (
        len(CHUNK),
        MAX_OUTPUT_BYTES,
        False,
    )


def test_the_fastest_viewer_says_what_was_shown(output: TerminalOutput) -> None:
    slow, _ = output.look(None)
    fast, _ = output.look(None)
    output.add(b"12345", 0)
    output.add(b"67890", 5)
    assert output.acknowledge() is None
    output.showed(fast, 7)
    assert (output.shown(fast), output.acknowledge()) == (7, 5)
    output.showed(fast, 3)
    output.showed(slow, 99)
    assert (output.shown(fast), output.shown(slow), output.acknowledge()) == (7, 10, 10)


def test_without_viewers_the_rest_is_acknowledged(output: TerminalOutput) -> None:
    viewer, _ = output.look(None)
    output.add(b"12345", 0)
    output.leave(viewer)
    output.showed(viewer, 5)
    assert output.acknowledge() == 5


def test_an_interrupt_jumps_for_the_device_alone(output: TerminalOutput) -> None:
    output.add(b"12345", 0)
    output.add(b"^C", 9000)
    assert (output.total, output.offset, output.acknowledge()) == (7, 9002, 9002)


def test_a_viewer_begins_where_it_stopped_or_with_all_that_is_kept(output: TerminalOutput) -> None:
    output.add(b"12345", 0)
    assert [output.look(count)[1] for count in (None, 3, 5, 6)] == [0, 3, 5, 0]


def test_what_the_device_waits_for_is_kept_within_a_bound(output: TerminalOutput) -> None:
    output.look(None)
    for number in range(5):
        output.add(CHUNK, number * len(CHUNK))
    assert (output.start, output.is_whole) == (0, True)
    for number in range(5, 9):
        output.add(CHUNK, number * len(CHUNK))
    assert (output.start, output.is_whole) == (9 * len(CHUNK) - MAX_KEPT_BYTES, False)


def test_a_redraw_begins_the_kept_output_anew_and_is_no_output_itself(
    output: TerminalOutput,
) -> None:
    output.add(b"12345", 0)
    output.add(RESET + b"\x1b[?25l", 3)
    assert (output.start, output.kept(), output.offset) == (5, RESET + b"\x1b[?25l", 3)
    output.add(b"45", 3)
    assert (output.total, output.offset, output.is_whole) == (15, 5, True)


def test_a_redraw_that_was_asked_for_may_begin_where_the_output_goes_on(
    output: TerminalOutput,
) -> None:
    output.add(b"12345", 0)
    output.redraw_asked()
    output.add(RESET, 5)
    assert (output.start, output.offset) == (5, 5)
    # one that a program says is its own
    output.add(RESET + b"a", 5)
    assert (output.start, output.offset) == (5, 8)


def test_a_redraw_that_does_not_come_is_waited_for_no_more(output: TerminalOutput) -> None:
    output.redraw_asked()
    output.no_redraw()
    output.add(RESET + b"a", 0)
    assert (output.start, output.kept(), output.offset) == (0, RESET + b"a", 3)
