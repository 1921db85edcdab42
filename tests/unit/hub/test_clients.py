"""One client's queues: bounds, lag, turns."""

from msgspec.structs import replace

from lembasd.hub.core.clients import (
    CUT_BYTES,
    LAG_CHANNEL_BYTES,
    LAG_TOTAL_BYTES,
    ClientQueue,
    Cut,
    Resend,
)
from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope

A = "ses_" + "a" * 26
B = "ses_" + "b" * 26
TERMINAL = "term_" + "c" * 12


def broadcast(seq: int, size: int = 1, channel: str = A, *, delta: bool = True) -> Envelope:
    return Envelope(
        kind=kinds.RPC,
        channel=channel,
        epoch=1,
        seq=seq,
        audience=kinds.ALL,
        delta=delta,
        payload=b"x" * size,
    )


def one(seq: int = 0, size: int = 1, card: str = "") -> Envelope:
    """Something for this client alone: an answer, a card, or (with `seq`) a message resent."""
    return Envelope(
        kind=kinds.RPC,
        channel=A,
        epoch=1,
        seq=seq,
        audience=kinds.ONE,
        card=card,
        payload=b"y" * size,
    )


def lagging() -> ClientQueue:
    """A queue that holds message 1 of session A and has left out message 2."""
    queue = ClientQueue()
    queue.offer(broadcast(1, LAG_CHANNEL_BYTES + 1))
    queue.offer(broadcast(2))
    return queue


def test_a_queue_is_idle_until_something_waits() -> None:
    queue = ClientQueue()
    assert queue.idle
    assert queue.offer(broadcast(1)) is None
    assert not queue.idle
    assert queue.take() == broadcast(1)
    assert queue.take() is None
    assert queue.idle


def test_channels_take_turns() -> None:
    queue = ClientQueue()
    for message in (broadcast(1), broadcast(2), broadcast(3), broadcast(1, channel=B)):
        queue.offer(message)
    order = [queue.take() for _ in range(4)]
    assert [(m.channel, m.seq) for m in order if m] == [(A, 1), (B, 1), (A, 2), (A, 3)]


def test_the_first_delta_left_out_leaves_out_all_that_follows_of_its_session() -> None:
    queue = lagging()
    queue.offer(broadcast(3, delta=False))
    queue.offer(broadcast(1, channel=B))
    assert queue.lagging == [A]
    assert [m.channel for m in (queue.take(), queue.take()) if m] == [A, B]
    assert queue.take() is None


def test_what_is_no_delta_is_never_left_out_by_itself() -> None:
    queue = ClientQueue()
    queue.offer(broadcast(1, LAG_CHANNEL_BYTES + 1))
    queue.offer(broadcast(2, delta=False))
    assert queue.lagging == []


def test_a_resend_is_asked_once_when_the_sessions_queue_has_drained() -> None:
    queue = lagging()
    assert queue.resends() == []
    queue.take()
    assert queue.resends() == [Resend(A, 1, 1)]
    assert queue.resends() == []
    assert not queue.idle


def test_no_resend_is_asked_while_other_channels_fill_the_queue() -> None:
    queue = ClientQueue()
    queue.offer(Envelope(kind=kinds.RPC, channel=TERMINAL, payload=b"z" * (LAG_TOTAL_BYTES + 1)))
    queue.offer(broadcast(7))
    assert queue.resends() == []
    queue.take()
    assert queue.resends() == [Resend(A, 1, 6)]


def test_answers_and_cards_come_after_what_was_resent() -> None:
    queue = lagging()
    answer = one(size=3)
    queue.offer(one(card="call1"))
    queue.offer(answer)
    queue.take()
    queue.resends()
    queue.offer(one(seq=3))
    queue.offer(broadcast(3))
    assert queue.held_bytes == 4
    assert queue.resent(A) is None
    assert [queue.take() for _ in range(4)] == [one(seq=3), one(card="call1"), answer, None]
    assert queue.idle
    assert queue.resent(A) is None


def test_a_lag_that_ends_with_nothing_queued_leaves_the_queue_idle() -> None:
    queue = lagging()
    queue.take()
    queue.resends()
    assert queue.resent(A) is None
    assert queue.idle


def test_the_gap_of_a_merged_message_begins_where_the_client_was() -> None:
    queue = lagging()
    queue.take()
    queue.resends()
    queue.offer(one(seq=9))
    queue.resent(A)
    queue.offer(broadcast(1, CUT_BYTES, channel=B, delta=False))
    assert queue.offer(broadcast(2, channel=B, delta=False)) == Cut([(A, "1:1"), (B, "1:0")])


def test_the_gap_begins_after_a_merged_message_that_the_client_was_given() -> None:
    queue = lagging()
    queue.take()
    queue.resends()
    queue.offer(one(seq=9))
    queue.resent(A)
    queue.offer(broadcast(10, CUT_BYTES + 1, delta=False))
    assert queue.take() == one(seq=9)
    assert queue.offer(broadcast(11, delta=False)) == Cut([(A, "1:9")])


def test_a_resend_that_nobody_asked_for_ends_no_lag() -> None:
    queue = lagging()
    assert queue.resent(A) is None
    assert queue.lagging == [A]


def test_a_card_that_is_settled_before_it_was_seen_is_never_shown() -> None:
    queue = lagging()
    queue.offer(one(card="call1"))
    queue.offer(one(card="call2"))
    assert queue.card_settled(A, "call2")
    assert not queue.card_settled(A, "call2")
    assert not queue.card_settled(B, "call1")
    assert queue.held_bytes == 1


def test_a_client_over_the_bound_is_cut_with_the_gap_of_each_session() -> None:
    queue = lagging()
    queue.offer(broadcast(4, CUT_BYTES, channel=B, delta=False))
    queue.offer(Envelope(kind=kinds.RPC, channel=TERMINAL, payload=b"z"))
    assert queue.offer(broadcast(5, channel=B, delta=False)) == Cut([(A, "1:0"), (B, "1:3")])


def test_held_answers_count_for_the_bound() -> None:
    queue = lagging()
    assert queue.offer(one(size=CUT_BYTES)) == Cut([(A, "1:0")])


def test_a_client_may_be_cut_when_its_lag_ends() -> None:
    queue = lagging()
    queue.offer(one())
    queue.offer(one())
    queue.take()
    queue.resends()
    queue.offer(one(seq=2, size=CUT_BYTES + 1))
    assert queue.resent(A) == Cut([(A, "1:1")])


def test_a_client_that_was_away_is_sent_what_it_missed_before_anything_else_of_the_session() -> (
    None
):
    queue = ClientQueue()
    queue.catch_up(A, 1, 7)
    assert queue.resends() == [Resend(A, 1, 7)]
    queue.offer(one(card="call1"))
    queue.offer(broadcast(8))
    queue.offer(one(seq=8))
    assert queue.resent(A) is None
    queue.offer(broadcast(9))
    given = [queue.take() for _ in range(4)]
    assert [(m.seq, m.card) for m in given if m] == [(8, ""), (0, "call1"), (9, "")]


def test_who_asks_for_what_it_missed_while_it_lags_keeps_what_was_held_for_it() -> None:
    queue = lagging()
    queue.offer(one(card="call1"))
    queue.catch_up(A, 1, 0)
    while queue.take():
        pass
    assert queue.resends() == [Resend(A, 1, 0)]
    queue.resent(A)
    last = queue.take()
    assert last is not None
    assert last.card == "call1"


def test_when_its_worker_is_gone_a_lagging_session_has_a_gap_and_gives_its_answers() -> None:
    queue = lagging()
    queue.offer(one())
    assert queue.session_ended(A) == ("1:1", None)
    assert queue.session_ended(A) == (None, None)
    assert [m.payload[:1] for m in (queue.take(), queue.take()) if m] == [b"x", b"y"]


# ── coming back ─────────────────────────────────────────────────────────────────────────────────


def test_what_a_client_missed_while_it_was_away_is_never_left_out() -> None:
    queue = ClientQueue()
    for seq in (3, 9):
        queue.offer(replace(one(seq, LAG_CHANNEL_BYTES), delta=True))
    queue.offer(replace(one(12), delta=True))
    assert queue.lagging == []
    queue.offer(broadcast(13))
    assert queue.lagging == [A]
    assert [m.seq for m in (queue.take(), queue.take(), queue.take()) if m] == [3, 9, 12]
    assert queue.resends() == [Resend(A, 1, 12)]


def test_whoever_is_cut_in_the_middle_of_what_it_missed_is_told_where_it_was() -> None:
    queue = ClientQueue()
    queue.offer(one(3, CUT_BYTES))
    queue.offer(one(9, CUT_BYTES))
    queue.take()
    queue.offer(one(12, CUT_BYTES))
    assert queue.offer(one(15)) == Cut([(A, "1:3")])


def test_a_snapshot_stands_for_the_messages_before_it_and_answers_are_kept() -> None:
    queue = ClientQueue()
    assert queue.restart(A) is None
    queue.offer(broadcast(1))
    queue.offer(broadcast(1, channel=B))
    queue.offer(one(size=2))
    assert queue.restart(A) is None
    assert [m.payload for m in (queue.take(), queue.take()) if m] == [b"yy", b"x"]
    assert queue.idle


def test_a_snapshot_ends_a_lag_and_what_was_held_for_it_comes() -> None:
    queue = lagging()
    queue.offer(one(size=2))
    assert queue.restart(A) is None
    assert queue.lagging == []
    assert [m.payload for m in (queue.take(), queue.take()) if m] == [b"yy"]
    assert queue.idle


def test_what_was_asked_for_before_a_snapshot_is_old_when_it_comes() -> None:
    queue = lagging()
    for _ in range(2):
        queue.take()
        assert len(queue.resends()) == 1
        queue.restart(A)
        queue.offer(broadcast(7, LAG_CHANNEL_BYTES + 1))
        queue.offer(broadcast(8))
    for _ in range(2):
        assert not queue.idle
        assert queue.offer(one(2)) is None
        assert queue.resent(A) is None
    assert queue.lagging == [A]
    queue.take()
    assert queue.resends() == [Resend(A, 1, 7)]
    queue.offer(one(8))
    queue.resent(A)
    assert queue.take() == one(8)
    assert queue.idle


def test_a_worker_that_ends_owes_no_resend() -> None:
    queue = lagging()
    queue.take()
    queue.resends()
    queue.restart(A)
    assert not queue.idle
    assert queue.session_ended(A) == (None, None)
    assert queue.idle


# ── terminals ───────────────────────────────────────────────────────────────────────────────────


def output(size: int, *, whole: bool = True) -> Envelope:
    """A piece of a terminal's output; `whole`: it may be left out."""
    return Envelope(kind=kinds.RPC, channel=TERMINAL, delta=whole, payload=b"o" * size)


def test_output_that_nobody_wants_any_more_is_left_out() -> None:
    queue = ClientQueue()
    assert queue.discard(TERMINAL) == 0
    kept = [output(3, whole=False), broadcast(1, 10)]
    for message in (output(100), kept[0], kept[1], output(200)):
        assert queue.offer(message) is None
    assert queue.discard(TERMINAL) == 300
    assert queue.queued_bytes == 13
    assert [queue.take(), queue.take(), queue.take()] == [*kept, None]
    assert queue.idle


def test_a_queue_of_nothing_but_unwanted_output_is_empty() -> None:
    queue = ClientQueue()
    queue.offer(output(100))
    assert queue.discard(TERMINAL) == 100
    assert (queue.idle, queue.queued_bytes, queue.take()) == (True, 0, None)
