"""When a terminal's output is kept back, sent, replayed and not read."""

import pytest

from lembasd.protocol.limits import MAX_TERMINAL_CHUNK_BYTES
from lembasd.pty.core import flow
from lembasd.pty.core.flow import Effect, Flow
from lembasd.pty.core.scrollback import MAX_TORN_LINE_BYTES, RESET, Scrollback

OVERHEAD = 100
BIG = b"b" * flow.ECHO_BYTES
CHUNK = b"c" * MAX_TERMINAL_CHUNK_BYTES


def watched() -> Flow:
    """A flow with viewer 1 on an empty terminal."""
    one = Flow(OVERHEAD)
    assert one.handle(flow.ViewerAttached(1), 0.0) == []
    return one


def full() -> Flow:
    """A flow with viewer 1 that is paused."""
    one = watched()
    while not one.paused:
        one.handle(flow.Read(CHUNK), 0.0)
    return one


def test_a_small_read_is_sent_at_once() -> None:
    assert watched().handle(flow.Read(b"x"), 1.0) == [flow.Send(b"x")]


def test_a_large_read_waits_for_more() -> None:
    one = watched()
    assert one.handle(flow.Read(BIG), 1.0) == [flow.SetTimer(1.0 + flow.COALESCE_S)]
    assert one.handle(flow.Read(BIG), 1.001) == []
    assert one.handle(flow.TimerFired(), 1.004) == [flow.Send(BIG + BIG)]


def test_a_small_read_takes_along_what_waits() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    assert one.handle(flow.Read(b"x"), 1.001) == [flow.Send(BIG + b"x"), flow.CancelTimer()]


def test_a_full_chunk_waits_for_nothing() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    effects = one.handle(flow.Read(CHUNK[: -len(BIG)]), 1.001)
    assert effects == [flow.Send(BIG + CHUNK[: -len(BIG)]), flow.CancelTimer()]
    assert one.handle(flow.Read(CHUNK), 2.0) == [flow.Send(CHUNK)]


def test_reading_pauses_over_the_high_mark_and_goes_on_at_it() -> None:
    one = watched()
    effects: list[Effect] = []
    while flow.PauseReading() not in effects:
        effects = one.handle(flow.Read(CHUNK), 0.0)
    assert one.unacknowledged_bytes > flow.HIGH_BYTES
    over = one.unacknowledged_bytes - flow.HIGH_BYTES
    assert one.handle(flow.Credited(over - 1), 0.0) == []
    assert one.handle(flow.Credited(1), 0.0) == [flow.ResumeReading()]


def test_the_window_has_room_for_four_chunks() -> None:
    one = watched()
    for _ in range(4):
        one.handle(flow.Read(CHUNK), 0.0)
    assert not one.paused


def test_with_nobody_looking_nothing_is_sent_and_reading_goes_on() -> None:
    one = full()
    assert one.handle(flow.ViewerDetached(1), 0.0) == [flow.ResumeReading()]
    assert [one.handle(flow.Read(CHUNK), 0.0) for _ in range(20)] == [[]] * 20


def test_one_viewer_that_leaves_takes_nothing_from_another() -> None:
    one = watched()
    one.handle(flow.ViewerAttached(2), 0.0)
    one.handle(flow.Read(BIG), 1.0)
    assert one.handle(flow.ViewerDetached(2), 1.0) == []
    assert one.handle(flow.TimerFired(), 1.004) == [flow.Send(BIG)]


def test_the_last_viewer_to_leave_cancels_what_waits() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    assert one.handle(flow.ViewerDetached(1), 1.0) == [flow.CancelTimer()]


def test_a_lost_hub_takes_its_viewers_and_what_was_on_its_way() -> None:
    one = full()
    assert one.handle(flow.HubLost(), 0.0) == [flow.ResumeReading()]
    assert one.unacknowledged_bytes == 0


def test_a_newcomer_gets_a_replay_after_the_others_have_what_waited() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    assert one.handle(flow.ViewerAttached(2), 1.0) == [
        flow.Send(BIG),
        flow.CancelTimer(),
        flow.Replay(2, RESET + BIG),
    ]


def test_the_end_comes_after_the_last_output() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    effects = one.handle(flow.OutputEnded(), 1.0)
    assert effects == [flow.Send(BIG), flow.CancelTimer(), flow.Finished()]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_wire_bytes_are_base64_and_overhead(count: int) -> None:
    assert Flow(OVERHEAD).wire_bytes(count) == OVERHEAD + -(-count // 3) * 4


def test_an_empty_terminal_has_no_replay() -> None:
    assert Scrollback(10).replay() == b""


def test_a_scrollback_that_was_never_cut_is_whole() -> None:
    one = Scrollback(10)
    one.add(b"ab\ncd")
    one.add(b"efghi")
    assert one.replay() == RESET + b"ab\ncdefghi"


def test_a_cut_scrollback_begins_with_a_whole_line() -> None:
    one = Scrollback(10)
    one.add(b"first line\n")
    one.add(b"2nd\n3rd\n")
    assert one.replay() == RESET + b"2nd\n3rd\n"
    one.add(b"0123456789")
    assert one.replay() == RESET + b"0123456789"


def test_a_line_that_is_too_long_is_cut_where_it_is() -> None:
    one = Scrollback(2 * MAX_TORN_LINE_BYTES)
    data = b"x" * (3 * MAX_TORN_LINE_BYTES) + b"\nend"
    one.add(data)
    assert one.replay() == RESET + data[-2 * MAX_TORN_LINE_BYTES :]
