"""When a terminal's output is kept back, sent, left out, sent again and not read."""

import pytest

from lembasd.protocol.limits import MAX_TERMINAL_CHUNK_BYTES
from lembasd.pty.core import flow
from lembasd.pty.core.flow import Effect, Flow
from lembasd.pty.core.record import REDRAW_BYTES, RESET, Size

OVERHEAD = 100
SIZE = Size(80, 24)
BIG = b"b" * flow.ECHO_BYTES
CHUNK = b"c" * MAX_TERMINAL_CHUNK_BYTES


def terminal() -> Flow:
    return Flow(OVERHEAD, SIZE)


def watched() -> Flow:
    """A flow with viewer 1 on an empty terminal."""
    one = terminal()
    assert one.handle(flow.ViewerAttached(1), 0.0) == [flow.SayPlace(1, 0, redraw=False)]
    return one


def full() -> Flow:
    """A flow with viewer 1 that is paused; what was sent to it is all it has."""
    one = watched()
    while not one.paused:
        one.handle(flow.Read(CHUNK), 0.0)
    return one


def sent(effects: list[Effect], viewer: int = 1) -> bytes:
    """The output that a viewer is sent by these effects."""
    return b"".join(
        one.data for one in effects if isinstance(one, flow.Send) and one.viewer == viewer
    )


def test_a_small_read_is_sent_at_once_with_its_place() -> None:
    one = watched()
    assert one.handle(flow.Read(b"x"), 1.0) == [flow.Send(1, b"x", 0, SIZE, may_leave_out=True)]
    assert one.handle(flow.Read(b"y"), 1.0) == [flow.Send(1, b"y", 1, None, may_leave_out=True)]


def test_a_large_read_waits_for_more() -> None:
    one = watched()
    assert one.handle(flow.Read(BIG), 1.0) == [flow.SetTimer(1.0 + flow.COALESCE_S)]
    assert one.handle(flow.Read(BIG), 1.001) == []
    assert sent(one.handle(flow.TimerFired(), 1.004)) == BIG + BIG


def test_a_small_read_takes_along_what_waits() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    effects = one.handle(flow.Read(b"x"), 1.001)
    assert (effects[0], sent(effects)) == (flow.CancelTimer(), BIG + b"x")


def test_a_full_chunk_waits_for_nothing() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    assert sent(one.handle(flow.Read(CHUNK[: -len(BIG)]), 1.001)) == BIG + CHUNK[: -len(BIG)]


@pytest.mark.parametrize("cut", [b"\x1b[38;5;1", b"\x1b]0;title", "漢".encode()[:2], b"\x1b"])
def test_a_chunk_ends_between_sequences_and_characters(cut: bytes) -> None:
    one = watched()
    data = CHUNK[: -len(cut)] + cut
    whole = len(data) - len(cut)
    (first, *_) = one.handle(flow.Read(data), 1.0)
    assert first == flow.Send(1, data[:whole], 0, SIZE, may_leave_out=True)
    # a person waits for it: it goes as it is; what is still in the middle of a title is not to be left out
    rest = one.handle(flow.Read(b"m"), 2.0)[-1]
    in_title = cut.startswith(b"\x1b]")
    assert rest == flow.Send(1, cut + b"m", whole, None, may_leave_out=not in_title)


def test_a_string_longer_than_a_chunk_is_sent_in_pieces_that_stay() -> None:
    one = watched()
    picture = b"\x1bP" + CHUNK + CHUNK
    effects = one.handle(flow.Read(picture), 1.0)
    effects += one.handle(flow.Read(b"end\x1b\\"), 2.0)
    effects += one.handle(flow.Read(b"$ "), 3.0)
    pieces = [each for each in effects if isinstance(each, flow.Send)]
    assert sent(effects) == picture + b"end\x1b\\$ "
    assert [each.may_leave_out for each in pieces] == [False, False, False, True]


def test_reading_pauses_over_the_high_mark_and_goes_on_at_it() -> None:
    one = watched()
    effects: list[Effect] = []
    while flow.PauseReading() not in effects:
        effects = one.handle(flow.Read(CHUNK), 0.0)
    over = one.on_the_way(1) - flow.HIGH_BYTES
    assert over > 0
    assert one.handle(flow.Credited(1, over - 1), 0.0) == []
    assert one.handle(flow.Credited(1, 1), 0.0) == [flow.ResumeReading()]


def test_what_was_shown_opens_the_window() -> None:
    one = full()
    before = one.on_the_way(1)
    effects = one.handle(flow.Acknowledged(1, len(CHUNK)), 0.0)
    assert one.on_the_way(1) < before
    assert flow.ResumeReading() in effects
    # what it cannot have shown, and a viewer that is none, change nothing
    assert one.handle(flow.Acknowledged(1, -5), 0.0) == []
    assert one.handle(flow.Acknowledged(7, 5), 0.0) == []
    assert one.handle(flow.Credited(7, 5), 0.0) == []
    assert one.handle(flow.Discarded(7, 5), 0.0) == []


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
    assert sent(one.handle(flow.TimerFired(), 1.004)) == BIG


def test_the_last_viewer_to_leave_cancels_what_waits() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    assert one.handle(flow.ViewerDetached(1), 1.0) == [flow.CancelTimer()]


def test_a_lost_hub_takes_its_viewers_and_what_was_on_its_way() -> None:
    one = full()
    assert one.handle(flow.HubLost(), 0.0) == [flow.ResumeReading()]
    with pytest.raises(KeyError):
        one.on_the_way(1)


# ── several viewers ─────────────────────────────────────────────────────────────────────────────


def test_a_newcomer_gets_a_redraw_after_the_others_have_what_waited() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    effects = one.handle(flow.ViewerAttached(2), 1.0)
    assert effects[:3] == [
        flow.CancelTimer(),
        flow.AskRedraw(),
        flow.SayPlace(2, 0, redraw=True),
    ]
    assert (sent(effects, 1), sent(effects, 2)) == (BIG, RESET + BIG)


def test_who_comes_back_gets_the_rest_and_else_a_redraw() -> None:
    one = terminal()
    one.handle(flow.Read(b"0123456789"), 0.0)
    assert one.handle(flow.ViewerAttached(1, since=7), 0.0) == [
        flow.SayPlace(1, 7, redraw=False),
        flow.Send(1, b"789", 7, SIZE, may_leave_out=True),
    ]
    for nowhere in (-1, 11):
        effects = one.handle(flow.ViewerAttached(1, since=nowhere), 0.0)
        assert sent(effects) == RESET + b"0123456789"


def test_who_comes_back_in_the_middle_of_a_sequence_is_not_left_without_its_end() -> None:
    one = terminal()
    one.handle(flow.Read(b"text\x1b[3"), 0.0)
    one.handle(flow.ViewerAttached(1, since=7), 0.0)
    assert one.handle(flow.Read(b"1m"), 0.0) == [flow.Send(1, b"1m", 7, SIZE, may_leave_out=False)]


def test_the_fastest_viewer_sets_the_pace_and_a_slow_one_gets_a_redraw() -> None:
    one = watched()
    one.handle(flow.ViewerAttached(2), 0.0)
    shown = 0
    for _ in range(80):
        effects = one.handle(flow.Read(CHUNK), 0.0)
        shown += len(sent(effects, 1))
        one.handle(flow.Acknowledged(1, shown), 0.0)
        assert not one.paused
    assert shown == 80 * len(CHUNK)
    held = one.on_the_way(2)
    assert held < flow.HIGH_BYTES + one.wire_bytes(len(CHUNK))
    effects = one.handle(flow.Acknowledged(2, shown), 0.0)
    assert effects[0] == flow.AskRedraw()
    first = effects[1]
    assert isinstance(first, flow.Send)
    assert (first.viewer, first.data) == (2, RESET)
    assert shown - REDRAW_BYTES <= first.offset < shown


def test_a_viewer_that_is_left_alone_far_behind_gets_a_redraw_too() -> None:
    one = watched()
    one.handle(flow.ViewerAttached(2), 0.0)
    shown = 0
    for _ in range(40):
        shown += len(sent(one.handle(flow.Read(CHUNK), 0.0), 1))
        one.handle(flow.Acknowledged(1, shown), 0.0)
    assert one.handle(flow.ViewerDetached(1), 0.0) == [flow.PauseReading()]
    effects = one.handle(flow.Acknowledged(2, shown), 0.0)
    assert sent(effects, 2).startswith(RESET)


def test_the_size_that_output_was_written_for_is_told_when_it_changes() -> None:
    one = terminal()
    one.handle(flow.Read(b"narrow"), 0.0)
    one.handle(flow.Resized(200, 50), 0.0)
    one.handle(flow.Read(b"wide"), 0.0)
    effects = one.handle(flow.ViewerAttached(1, since=0), 0.0)
    assert effects[1:] == [
        flow.Send(1, b"narrow", 0, SIZE, may_leave_out=True),
        flow.Send(1, b"wide", 6, Size(200, 50), may_leave_out=True),
    ]


# ── the interrupt key ───────────────────────────────────────────────────────────────────────────


def test_an_interrupt_leaves_out_what_waits_up_to_the_last_whole_sequence() -> None:
    one = full()
    more = [one.handle(flow.Read(CHUNK), 0.0) for _ in range(4)]
    assert sent([effect for effects in more for effect in effects]) == b""
    one.handle(flow.Read(b"not shown\x1b[3"), 0.0)
    assert one.handle(flow.Interrupted(), 0.0)[0] == flow.Discard()
    effects = one.handle(flow.Acknowledged(1, 1 << 40), 0.0)
    effects += one.handle(flow.Read(b"1m$ "), 0.0)
    assert sent(effects) == b"\x1b[31m$ "


def test_an_interrupt_in_the_middle_of_a_sequence_leaves_its_end() -> None:
    one = watched()
    one.handle(flow.Read(b"\x1bP" + CHUNK * 9), 0.0)
    one.handle(flow.Interrupted(), 0.0)
    effects: list[Effect] = []
    while one.on_the_way(1):
        effects += one.handle(flow.Acknowledged(1, 1 << 40), 0.0)
    assert sent(effects).endswith(CHUNK)


def test_what_was_left_out_on_its_way_makes_room() -> None:
    one = full()
    all_of_it = one.on_the_way(1)
    one.handle(flow.Discarded(1, 1000), 0.0)
    assert one.on_the_way(1) == all_of_it - 1000
    one.handle(flow.Discarded(1, all_of_it * 2), 0.0)
    assert one.on_the_way(1) == 0
    assert not one.paused


def test_an_interrupt_with_nobody_looking_leaves_nothing_out() -> None:
    one = terminal()
    one.handle(flow.Read(b"text"), 0.0)
    assert one.handle(flow.Interrupted(), 0.0) == []
    assert sent(one.handle(flow.ViewerAttached(1), 0.0)) == RESET + b"text"


def test_an_interrupt_keeps_a_redraw() -> None:
    one = full()
    # its window is full: it waits for the redraw
    one.handle(flow.ViewerAttached(2), 0.0)
    for _ in range(40):
        one.handle(flow.Acknowledged(1, 1 << 40), 0.0)
        one.handle(flow.Read(CHUNK), 0.0)
    one.handle(flow.Interrupted(), 0.0)
    assert sent(one.handle(flow.Acknowledged(2, 1 << 40), 0.0), 2).startswith(RESET)


# ── the end ─────────────────────────────────────────────────────────────────────────────────────


def test_the_end_comes_after_the_last_output() -> None:
    one = watched()
    one.handle(flow.Read(BIG), 1.0)
    assert one.handle(flow.OutputEnded(), 1.0) == [
        flow.CancelTimer(),
        flow.SetEndTimer(1.0 + flow.END_S),
        flow.Send(1, BIG, 0, SIZE, may_leave_out=True),
        flow.SayEnd(1),
        flow.Finished(),
    ]


def test_a_slow_viewer_is_told_of_the_end_when_it_has_everything_or_after_a_time() -> None:
    one = full()
    one.handle(flow.Read(CHUNK), 0.0)
    one.handle(flow.ViewerAttached(2), 0.0)
    effects = one.handle(flow.OutputEnded(), 0.0)
    assert flow.SayEnd(1) not in effects
    effects = one.handle(flow.Acknowledged(1, 1 << 40), 0.0)
    assert flow.SayEnd(1) in effects
    assert flow.Finished() not in effects
    assert one.handle(flow.EndTimerFired(), flow.END_S)[:2] == [flow.SayEnd(2), flow.Finished()]
    assert one.handle(flow.EndTimerFired(), flow.END_S) == []


def test_the_end_is_kept_for_who_returns() -> None:
    one = watched()
    one.handle(flow.ViewerDetached(1, returns=True), 0.0)
    one.handle(flow.Read(b"last"), 0.0)
    assert one.handle(flow.OutputEnded(), 0.0) == [flow.SetEndTimer(flow.END_S)]
    assert one.handle(flow.ViewerAttached(2, since=0), 0.0)[-2:] == [
        flow.SayEnd(2),
        flow.Finished(),
    ]


def test_the_end_is_kept_no_longer_than_somebody_is_waited_for() -> None:
    one = watched()
    one.handle(flow.HubLost(returns=True), 0.0)
    one.handle(flow.OutputEnded(), 0.0)
    assert one.handle(flow.NobodyReturns(), 0.0) == [flow.Finished()]
    assert one.handle(flow.NobodyReturns(), 0.0) == []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_wire_bytes_are_base64_and_overhead(count: int) -> None:
    assert terminal().wire_bytes(count) == OVERHEAD + -(-count // 3) * 4


def test_what_is_shown_again_asks_the_terminal_nothing() -> None:
    one = watched()
    one.handle(flow.Read(b"vi\x1b[>c"), 0.0)
    effects = one.handle(flow.ViewerAttached(2), 1.0)
    assert sent(effects, 2) == RESET + b"vi" + bytes(4)
    # what is new asks everybody
    assert sent(one.handle(flow.Read(b"\x1b[6n"), 2.0), 2) == b"\x1b[6n"
    # and so does what nobody has shown yet: whoever comes back goes on
    one.handle(flow.ViewerDetached(1, returns=True), 3.0)
    one.handle(flow.ViewerDetached(2), 3.0)
    one.handle(flow.Read(b"\x1b[c"), 4.0)
    assert sent(one.handle(flow.ViewerAttached(1, since=10), 5.0)) == b"\x1b[c"


def test_who_comes_back_after_the_end_has_its_time_and_no_more() -> None:
    one = full()
    one.handle(flow.HubLost(returns=True), 0.0)
    for _ in range(8):
        one.handle(flow.Read(CHUNK), 0.0)
    one.handle(flow.OutputEnded(), 0.0)
    assert one.handle(flow.EndTimerFired(), flow.END_S) == []
    effects = one.handle(flow.ViewerAttached(2, since=0), 100.0)
    assert flow.SetEndTimer(100.0 + flow.END_S) in effects
    assert flow.SayEnd(2) not in effects
    # it acknowledges nothing
    effects = one.handle(flow.EndTimerFired(), 100.0 + flow.END_S)
    assert effects == [flow.SayEnd(2), flow.Finished()]


@pytest.mark.parametrize("leaving", [flow.ViewerDetached(1, returns=True), flow.HubLost(True)])
def test_nobody_is_waited_for_any_more_once_it_was_hung_up(
    leaving: flow.ViewerDetached | flow.HubLost,
) -> None:
    one = watched()
    one.handle(flow.NobodyReturns(), 0.0)
    # the link goes for the same reason, or a moment after it closed the terminal
    one.handle(leaving, 0.0)
    assert flow.Finished() in one.handle(flow.OutputEnded(), 0.0)


def raw(since: int | None = None) -> Flow:
    """A flow whose viewer 1 is sent its output as it is."""
    one = terminal()
    one.handle(flow.ViewerAttached(1, since, raw=True), 0.0)
    return one


def test_output_as_it_is_comes_after_a_message_that_tells_its_size() -> None:
    one = raw()
    assert one.handle(flow.Read(b"x"), 1.0) == [flow.Send(1, b"x", 0, SIZE, may_leave_out=True)]
    plain = flow.Send(1, b"y", 1, None, may_leave_out=True, raw=True)
    assert one.handle(flow.Read(b"y"), 1.0) == [plain]
    one.handle(flow.Resized(90, 30), 1.0)
    wider = flow.Send(1, b"z", 2, Size(90, 30), may_leave_out=True)
    assert one.handle(flow.Read(b"z"), 1.0) == [wider]


def test_output_as_it_is_weighs_what_it_is() -> None:
    one = raw()
    one.handle(flow.Read(b"x"), 1.0)
    assert one.on_the_way(1) == OVERHEAD + 4
    one.handle(flow.Read(b"yy"), 1.0)
    assert one.on_the_way(1) == OVERHEAD + 4 + 2
    one.handle(flow.Discarded(1, 2), 1.0)
    assert one.on_the_way(1) == OVERHEAD + 4
    one.handle(flow.Acknowledged(1, 1), 1.0)
    assert one.on_the_way(1) == 0


def test_a_redraw_as_it_is_begins_so() -> None:
    one = terminal()
    one.handle(flow.Read(b"seen"), 0.0)
    assert one.handle(flow.ViewerAttached(1, raw=True), 1.0) == [
        flow.AskRedraw(),
        flow.SayPlace(1, 0, redraw=True),
        flow.Send(1, RESET, 0, None, may_leave_out=False, raw=True),
        flow.Send(1, b"seen", 0, SIZE, may_leave_out=True),
    ]


def test_reading_pauses_by_the_bytes_themselves_for_output_as_it_is() -> None:
    one = raw()
    count = 0
    while not one.paused:
        one.handle(flow.Read(CHUNK), 0.0)
        count += 1
    # the first piece told a size, so it was a message
    assert count == flow.HIGH_BYTES // len(CHUNK)


def test_reading_pauses_in_the_midst_of_what_waits_for_a_chunk() -> None:
    one = raw()
    one.handle(flow.Read(b"x"), 0.0)
    one.handle(flow.Acknowledged(1, 1), 0.0)
    while flow.HIGH_BYTES - one.on_the_way(1) > 2 * len(BIG):
        one.handle(flow.Read(b"y" * (flow.ECHO_BYTES - 1)), 0.0)
    assert one.handle(flow.Read(BIG), 1.0) == [flow.SetTimer(1.0 + flow.COALESCE_S)]
    assert one.handle(flow.Read(BIG), 1.0) == [flow.PauseReading()]
