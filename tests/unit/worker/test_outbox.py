"""What an outbox sends, keeps and sends again."""

import msgspec
import pytest

from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.events import AnyEvent, Notice, Queue, Text
from lembasd.worker.core.outbox import MERGED_CHARS, Outbox

ANSWER = Envelope(kind=kinds.RPC, request=1, audience=kinds.ONE, payload=b"answer")
NOTICE = Notice(level="info", text="n")


def text(value: str, message: str = "m") -> AnyEvent:
    return Text(text=value, messageId=message)


def texts(frames: list[Envelope], audience: str = kinds.LEMBAS) -> list[tuple[int, str]]:
    """(number, text) of the text events among the frames."""
    found = []
    for frame in frames:
        if frame.audience in (audience, kinds.ONE) and b"_lembas/event" in frame.payload:
            event = msgspec.json.decode(frame.payload)["params"]["event"]
            found.append((frame.seq, event["text"]))
    return found


def gaps(frames: list[Envelope]) -> list[tuple[str, int, str]]:
    return [
        (frame.audience, frame.client, msgspec.json.decode(frame.payload)["params"]["since"])
        for frame in frames
        if b"_hub/gap" in frame.payload
    ]


def test_a_hub_that_reads_gets_each_message_at_once_and_numbered() -> None:
    outbox = Outbox("ses_1", 4)
    frames = outbox.say(text("a"), ready=True) + outbox.say(text("b"), ready=True)
    assert [(one.seq, one.audience, one.epoch, one.delta) for one in frames] == [
        (1, "lembas", 4, True),
        (2, "all", 4, True),
        (3, "lembas", 4, True),
        (4, "all", 4, True),
    ]
    assert outbox.seq == 4
    assert not outbox.waits


def test_deltas_that_wait_are_merged_and_what_lies_between_keeps_its_place() -> None:
    outbox = Outbox("ses_1", 1)
    for event in (text("a"), text("b"), text("c", "m2"), NOTICE, text("d"), text("e")):
        assert outbox.say(event, ready=False) == []
    assert outbox.put(ANSWER, ready=False) == []
    outbox.say(text("f"), ready=False)
    assert outbox.waits
    frames = outbox.drain()
    assert texts(frames) == [(3, "ab"), (5, "c"), (7, "n"), (10, "de"), (12, "f")]
    assert frames.index(ANSWER) == len(frames) - 3
    assert [one.seq for one in frames if one.seq] == [3, 4, 5, 6, 7, 10, 11, 12, 13]


def test_what_is_for_one_client_overtakes_nothing_that_waits() -> None:
    outbox = Outbox("ses_1", 1)
    assert outbox.put(ANSWER, ready=True) == [ANSWER]
    outbox.say(text("a"), ready=False)
    assert outbox.put(ANSWER, ready=True)[-1] == ANSWER
    outbox.put(ANSWER, ready=False)
    outbox.say(NOTICE, ready=False)
    assert outbox.drain()[0] == ANSWER


def test_a_merged_message_has_a_bound() -> None:
    outbox = Outbox("ses_1", 1)
    for _ in range(3):
        outbox.say(text("x" * MERGED_CHARS), ready=False)
    assert len(texts(outbox.drain())) == 3
    assert len(texts(outbox.replay(9, "1:0", lembas=True))) == 3


def test_a_lost_hub_loses_answers_but_nothing_that_was_said() -> None:
    outbox = Outbox("ses_1", 1)
    outbox.say(text("a"), ready=False)
    outbox.put(ANSWER, ready=False)
    outbox.hub_lost()
    assert texts(outbox.drain()) == [(1, "a")]


def test_who_comes_back_gets_what_came_after_merged_and_each_its_own_kind() -> None:
    outbox = Outbox("ses_1", 1)
    for event in (text("a"), text("b"), NOTICE, text("c"), text("d", "m2")):
        outbox.say(event, ready=True)
    frames = outbox.replay(9, "1:2", lembas=True)
    assert texts(frames) == [(3, "b"), (5, "n"), (6, "c"), (8, "d")]
    assert {(one.audience, one.client) for one in frames} == {("one", 9)}
    plain = outbox.replay(9, "1:2", lembas=False)
    assert [one.seq for one in plain] == [4, 7, 9]
    assert outbox.replay(9, f"1:{outbox.seq}", lembas=True) == []


def test_who_saw_half_of_an_event_gets_the_other_half_unmerged() -> None:
    outbox = Outbox("ses_1", 1)
    for event in (text("a"), text("b"), text("c")):
        outbox.say(event, ready=True)
    frames = outbox.replay(9, "1:1", lembas=True)
    assert [one.seq for one in frames] == [2, 5, 6]
    assert texts(frames) == [(5, "bc")]


def test_what_waits_for_the_socket_is_not_replayed_for_it_comes_by_itself() -> None:
    outbox = Outbox("ses_1", 1)
    outbox.say(text("a"), ready=True)
    outbox.say(text("b"), ready=False)
    assert texts(outbox.replay(9, "1:0", lembas=True)) == [(1, "a")]


@pytest.mark.parametrize("since", ["2:0", "1:99", "1:", "1:x", "", "1:-1", "1:" + "9" * 30, "1:²"])
def test_what_cannot_be_given_is_a_gap(since: str) -> None:
    outbox = Outbox("ses_1", 1)
    outbox.say(text("a"), ready=True)
    assert gaps(outbox.replay(9, since, lembas=True)) == [("one", 9, since)]


def test_what_fell_out_of_the_ring_is_a_gap_for_who_asks() -> None:
    outbox = Outbox("ses_1", 1, ring_bytes=2000)
    for number in range(9):
        outbox.say(text(f"{number}", f"m{number}"), ready=True)
    assert gaps(outbox.replay(9, "1:0", lembas=True)) == [("one", 9, "1:0")]
    assert gaps(outbox.replay(9, "1:17", lembas=True)) == []


def test_what_fell_out_before_anybody_took_it_is_a_gap_for_all() -> None:
    outbox = Outbox("ses_1", 1, ring_bytes=2000)
    outbox.say(text("first"), ready=True)
    for number in range(9):
        outbox.say(text(f"{number}", f"m{number}"), ready=False)
    frames = outbox.drain()
    assert gaps(frames) == [("all", 0, "1:2")]
    assert texts(frames)[-1] == (19, "8")


def test_a_client_that_lagged_gets_the_rest_and_the_word_that_it_is_all() -> None:
    outbox = Outbox("ses_1", 1)
    for event in (text("a"), text("b"), text("c")):
        outbox.say(event, ready=True)
    frames = outbox.resend(9, 1, 2, lembas=True)
    assert texts(frames[:-1]) == [(5, "bc")]
    assert frames[-1] == Envelope(kind=kinds.RESENT, channel="ses_1", client=9, epoch=1, seq=6)


def test_nothing_said_is_nothing_missed() -> None:
    assert Outbox("ses_1", 1).replay(9, "1:0", lembas=True) == []


def test_who_is_attached_with_the_next_message_is_given_the_unsent_rest_too() -> None:
    outbox = Outbox("ses_1", 4)
    outbox.say(text("a"), ready=True)
    outbox.say(text("b"), ready=False)
    outbox.say(Queue([]), ready=False)
    rest = outbox.rest(7, "4:2", lembas=True)
    assert rest is not None
    assert [(one.seq, one.client, one.audience) for one in rest] == [
        (3, 7, "one"),
        (4, 7, "one"),
        (5, 7, "one"),
    ]
    plain = outbox.rest(7, "4:2", lembas=False)
    assert plain is not None
    assert [one.seq for one in plain] == [4]
    assert outbox.rest(7, "4:5", lembas=True) == []
    for since in ("4:6", "3:2", "4:x", ""):
        assert outbox.rest(7, since, lembas=True) is None
    assert outbox.place == "4:5"


def test_what_is_for_this_machine_is_not_said_again_to_the_link() -> None:
    outbox = Outbox("ses_1", 4)
    (frame,) = outbox.say(Queue([]), ready=True)
    assert (frame.audience, frame.seq) == ("local", 1)
    assert b'"method":"_hub/queue"' in frame.payload
    assert outbox.replay(7, "4:0", lembas=True) == []
    assert [one.seq for one in outbox.replay(7, "4:0", lembas=True, local=True)] == [1]
    resent = outbox.resend(7, 4, 0, lembas=True, local=True)
    assert [one.kind for one in resent] == [kinds.RPC, kinds.RESENT]
