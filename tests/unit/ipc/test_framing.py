"""Framing: bytes to frames, frames to messages, and every bound on the way."""

import msgspec
import pytest

from lembasd.ipc.framing import (
    AssemblyBudget,
    FrameDecoder,
    MessageAssembler,
    encode_frame,
    split,
)
from lembasd.protocol.envelope import RPC, Envelope
from lembasd.protocol.errors import FrameError
from lembasd.protocol.limits import (
    MAX_FRAME_BYTES,
    MAX_FRAME_PAYLOAD_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PARTIAL_MESSAGES,
)


def message(size: int, channel: str = "ses_a") -> Envelope:
    return Envelope(kind=RPC, channel=channel, payload=b"x" * size)


def test_a_frame_comes_back_as_it_went() -> None:
    frame = Envelope(kind=RPC, payload=b"\x00\xff", channel="c", epoch=7, seq=9, delta=True)
    assert FrameDecoder().feed(encode_frame(frame)) == [frame]


def test_a_frame_cut_into_single_bytes_comes_once_it_is_whole() -> None:
    decoder = FrameDecoder()
    data = encode_frame(message(100))
    seen = [decoder.feed(data[i : i + 1]) for i in range(len(data))]
    assert seen == [[]] * (len(data) - 1) + [[message(100)]]


def test_a_length_over_the_bound_is_refused_before_its_body_comes() -> None:
    with pytest.raises(FrameError, match="over the"):
        FrameDecoder().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"hello", msgspec.msgpack.encode([1, 2])])
def test_a_body_that_is_no_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="no envelope"):
        FrameDecoder().feed(len(body).to_bytes(4, "big") + body)


def test_a_short_message_is_one_frame_without_numbers() -> None:
    assert list(split(message(MAX_FRAME_PAYLOAD_BYTES), 5)) == [message(MAX_FRAME_PAYLOAD_BYTES)]


def test_a_long_message_travels_in_frames_that_fit() -> None:
    frames = list(split(message(2 * MAX_FRAME_PAYLOAD_BYTES + 1), 5))
    assert [(len(f.payload), f.message, f.total, f.more) for f in frames] == [
        (MAX_FRAME_PAYLOAD_BYTES, 5, 2 * MAX_FRAME_PAYLOAD_BYTES + 1, True),
        (MAX_FRAME_PAYLOAD_BYTES, 5, 2 * MAX_FRAME_PAYLOAD_BYTES + 1, True),
        (1, 5, 2 * MAX_FRAME_PAYLOAD_BYTES + 1, False),
    ]
    assert all(len(encode_frame(frame)) <= MAX_FRAME_BYTES for frame in frames)


def test_interleaved_messages_are_put_together_apart() -> None:
    budget = AssemblyBudget()
    assembler = MessageAssembler(budget)
    first = list(split(message(100_000, "ses_a"), 1))
    second = list(split(message(90_000, "ses_b"), 2))
    assert [assembler.add(frame) for frame in (first[0], second[0])] == [None, None]
    assert budget.held_bytes == 190_000
    assert assembler.add(second[1]) == message(90_000, "ses_b")
    assert assembler.add(first[1]) == message(100_000, "ses_a")
    assert budget.held_bytes == 0


@pytest.mark.parametrize("total", [0, MAX_MESSAGE_BYTES + 1])
def test_a_message_over_the_bound_is_refused_at_its_first_frame(total: int) -> None:
    budget = AssemblyBudget()
    frame = Envelope(kind=RPC, payload=b"x", message=1, total=total, more=True)
    with pytest.raises(FrameError, match="over the"):
        MessageAssembler(budget).add(frame)
    assert budget.held_bytes == 0


def test_a_message_that_does_not_add_up_is_refused() -> None:
    assembler = MessageAssembler(AssemblyBudget())
    assembler.add(Envelope(kind=RPC, payload=b"xx", message=1, total=3, more=True))
    with pytest.raises(FrameError, match="add up"):
        assembler.add(Envelope(kind=RPC, payload=b"xx", message=1, total=3))


def test_a_message_that_stops_short_is_refused() -> None:
    assembler = MessageAssembler(AssemblyBudget())
    assembler.add(Envelope(kind=RPC, payload=b"xx", message=1, total=9, more=True))
    with pytest.raises(FrameError, match="add up"):
        assembler.add(Envelope(kind=RPC, payload=b"x", message=1, total=9))


def test_a_peer_that_never_finishes_is_refused_at_a_bound() -> None:
    assembler = MessageAssembler(AssemblyBudget())
    for number in range(1, MAX_PARTIAL_MESSAGES + 1):
        assembler.add(Envelope(kind=RPC, payload=b"x", message=number, total=2, more=True))
    with pytest.raises(FrameError, match="unfinished"):
        assembler.add(Envelope(kind=RPC, payload=b"x", message=999, total=2, more=True))


def test_a_frame_of_several_without_a_number_is_refused() -> None:
    with pytest.raises(FrameError, match="unfinished"):
        MessageAssembler(AssemblyBudget()).add(Envelope(kind=RPC, payload=b"x", total=2, more=True))


def test_unfinished_messages_of_all_connections_share_one_budget() -> None:
    budget = AssemblyBudget(bound=150)
    one, other = MessageAssembler(budget), MessageAssembler(budget)
    one.add(Envelope(kind=RPC, payload=b"x", message=1, total=100, more=True))
    with pytest.raises(FrameError, match="at once"):
        other.add(Envelope(kind=RPC, payload=b"x", message=1, total=100, more=True))
    one.close()
    assert budget.held_bytes == 0
    assert other.add(Envelope(kind=RPC, payload=b"x", message=2, total=100, more=True)) is None
