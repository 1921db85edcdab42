"""However a stream is cut and its messages interleaved, what comes out is what went in."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.ipc.framing import (
    AssemblyBudget,
    FrameDecoder,
    MessageAssembler,
    encode_frame,
    split,
)
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import FrameError
from lembasd.protocol.limits import MAX_FRAME_PAYLOAD_BYTES

envelopes = st.builds(
    Envelope,
    kind=st.sampled_from(["rpc", "state", "nobody knows this"]),
    channel=st.text(max_size=20),
    epoch=st.integers(0, 2**63 - 1),
    seq=st.integers(0, 2**63 - 1),
    client=st.integers(0, 2**60),
    request=st.integers(0, 2**60),
    audience=st.sampled_from(["", "all", "lembas", "one"]),
    delta=st.booleans(),
    failed=st.booleans(),
    payload=st.one_of(
        st.binary(max_size=200),
        st.integers(1, 3).map(lambda n: b"y" * (n * MAX_FRAME_PAYLOAD_BYTES - 1)),
    ),
)


@given(st.lists(envelopes, max_size=6), st.randoms(use_true_random=False))
def test_any_cut_and_any_interleaving_gives_the_messages_back(messages, random) -> None:  # type: ignore[no-untyped-def]
    lanes = [list(split(message, number)) for number, message in enumerate(messages, 1)]
    stream = b""
    while any(lanes):
        lane = random.choice([one for one in lanes if one])
        stream += encode_frame(lane.pop(0))
    decoder, assembler, got = FrameDecoder(), MessageAssembler(AssemblyBudget()), []
    position = 0
    while position < len(stream):
        size = random.choice([1, 3, 1000, 65536, 300000])
        for frame in decoder.feed(stream[position : position + size]):
            whole = assembler.add(frame)
            if whole is not None:
                got.append(whole)
        position += size
    assert sorted(got, key=repr) == sorted(messages, key=repr)


@given(st.lists(st.binary(max_size=300), max_size=10))
def test_garbage_ends_in_frames_or_a_frame_error_and_nothing_else(chunks: list[bytes]) -> None:
    decoder, assembler = FrameDecoder(), MessageAssembler(AssemblyBudget())
    try:
        for chunk in chunks:
            for frame in decoder.feed(chunk):
                assembler.add(frame)
    except FrameError:
        pass
