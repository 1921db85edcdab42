"""How full a window is, by the server's own counts."""

import pytest

from lembasd.engine.native.core.capacity import Capacity, leaves_tools_out


def capacity(window: int) -> Capacity:
    return Capacity(window, share=0.85, reserve=8000)


def test_a_window_that_nobody_knows_is_never_full() -> None:
    assert not capacity(0).is_full(10**9)


def test_until_a_server_has_counted_two_and_a_half_bytes_are_a_token() -> None:
    assert capacity(0).estimate(2500) == 1000


def test_a_counted_request_gives_the_ratio_and_a_small_or_odd_one_does_not() -> None:
    one = capacity(0)
    assert one.counted(100, 10)
    assert one.estimate(2500) == 1000
    assert one.counted(40_000, 10_000)
    assert one.estimate(4000) == 1000
    assert one.counted(1_000_000, 500_000)
    assert one.estimate(2000) == 1000


def test_a_ratio_beyond_belief_is_bounded() -> None:
    one = capacity(0)
    one.counted(2_000, 100_000)
    assert one.estimate(1000) == 2000


def test_a_large_window_keeps_room_for_a_reply_and_a_small_one_a_half() -> None:
    one = capacity(100_000)
    assert (one.is_full(212_000), one.is_full(213_000)) == (False, True)
    one = capacity(30_000)
    assert (one.is_full(55_000), one.is_full(55_100)) == (False, True)
    one = capacity(4000)
    assert (one.is_full(5000), one.is_full(5010)) == (False, True)


def test_a_server_that_has_read_a_part_alone_is_found_out() -> None:
    one = capacity(0)
    assert not one.counted(100_000, 4096)
    # one that does not count at all is not
    assert one.counted(100_000, 7)


def test_a_model_that_says_how_long_a_reply_may_be_has_room_for_it() -> None:
    one = capacity(100_000)
    one.leave_room_for(0)
    assert one.is_full(213_000)
    one.leave_room_for(2_000)
    assert (one.is_full(212_000), one.is_full(213_000)) == (False, True)  # the share holds
    one.leave_room_for(64_000)
    assert (one.is_full(187_500), one.is_full(187_600)) == (False, True)  # a quarter at most


@pytest.mark.parametrize(
    ("said", "tools", "counted", "out"),
    [
        (1_000, 6_000, 300, True),
        (1_000, 6_000, 1_000, False),
        (1_000, 6_000, 7, False),
        (1_000, 6_000, 0, False),
        (4_000, 6_000, 300, False),
    ],
)
def test_tools_that_a_template_leaves_out_are_missed_in_the_count(
    said: int, tools: int, counted: int, out: bool
) -> None:
    assert leaves_tools_out(said, tools, counted) is out
