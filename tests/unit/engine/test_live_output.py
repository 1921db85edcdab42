"""What is kept and what is shown of a running command's output."""

from lembasd.engine.native.core.live_output import (
    QUICK_LOOKS,
    SHOW_EVERY_S,
    SHOW_LATER_EVERY_S,
    SHOWN_CHARS,
    LiveOutput,
)


def test_a_short_output_is_kept_whole() -> None:
    output = LiveOutput()
    for piece in (b"a\n", b"\x1b[1mb", b"\n", b"c"):
        output.feed(piece)
    assert output.finish() == "a\nb\nc"


def test_of_a_long_output_the_middle_is_left_out_and_counted() -> None:
    output = LiveOutput(max_chars=8)
    for piece in (b"ab", b"cdef", b"gh", b"ijklmnop\n"):
        output.feed(piece)
    assert output.finish() == "abcd\n[9 characters left out]\nnop\n"


def test_an_output_that_fills_the_bound_is_not_cut() -> None:
    output = LiveOutput(max_chars=8)
    output.feed(b"abcdefgh")
    assert output.finish() == "abcdefgh"


def test_a_program_that_writes_a_line_at_a_time_costs_no_memory_for_each() -> None:
    output = LiveOutput()
    for number in range(2000):
        output.feed(b"%d\n" % number)
    assert output.finish() == "".join(f"{number}\n" for number in range(2000))


# ── while it runs ───────────────────────────────────────────────────────────────────────────────


def test_the_lines_so_far_are_shown_the_open_one_too() -> None:
    output = LiveOutput()
    output.feed(b"one\n 50%")
    assert output.look(0.0) == "one\n 50%"
    output.feed(b"\r100%")
    assert output.look(1.0) == "one\n100%"


def test_nothing_is_shown_twice() -> None:
    output = LiveOutput()
    assert output.look(0.0) is None
    output.feed(b"one\n")
    assert output.look(0.0) == "one\n"
    output.feed(b"\x07")
    assert output.look(1.0) is None


def test_a_long_output_is_shown_from_a_lines_start() -> None:
    output = LiveOutput()
    for number in range(10_230):
        output.feed(b"line %d\n" % number)
    shown = output.look(0.0)
    assert shown is not None
    assert len(shown) <= SHOWN_CHARS
    assert shown.startswith("line 10")
    assert shown.endswith("line 10229\n")


def test_the_last_lines_come_from_head_and_tail_alike() -> None:
    output = LiveOutput(max_chars=10)
    output.feed(b"ab\ncd\nef\n")
    assert output.look(0.0) == "ab\ncd\nef\n"


def test_one_long_line_is_shown_by_its_end() -> None:
    output = LiveOutput()
    output.feed(b"x" * 5000 + b"end\n")
    shown = output.look(0.0)
    assert shown is not None
    assert (len(shown), shown[-5:]) == (SHOWN_CHARS, "xend\n")


def test_it_is_shown_at_once_then_four_times_a_second_then_once() -> None:
    output = LiveOutput()
    assert output.next_look(5.0) == 5.0
    for number in range(QUICK_LOOKS):
        output.feed(b"%d\n" % number)
        assert output.look(5.0) is not None
        every = SHOW_EVERY_S if number + 1 < QUICK_LOOKS else SHOW_LATER_EVERY_S
        assert output.next_look(5.1) == 5.0 + every
    assert output.next_look(9.0) == 9.0
