"""However slowly a hub reads and whenever clients come back, each gets every character once and in order, or a gap."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.events import Text
from lembasd.worker.core.outbox import Outbox

RING = 6000


class OutboxMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox("ses_1", 1, ring_bytes=RING)
        self.count = 0
        self.said: list[str] = []
        #: what a client that always listens has, and where a gap was said
        self.heard: list[str] = []
        self.seen = 0
        self.gap = False

    def take(self, frames: list[Envelope]) -> None:
        for frame in frames:
            if b"_hub/gap" in frame.payload:
                self.gap = True
            elif frame.audience == kinds.LEMBAS:
                assert frame.seq > self.seen
                self.seen = frame.seq
                self.heard += characters(frame)

    @rule(message=st.sampled_from(["m1", "m2"]), length=st.integers(1, 40), is_ready=st.booleans())
    def say(self, message: str, length: int, is_ready: bool) -> None:
        pieces = [f"{self.count + index}," for index in range(length)]
        self.count += length
        self.said += pieces
        event = Text(text="".join(pieces), messageId=message)
        self.take(self.outbox.say(event, ready=is_ready))

    @rule()
    def drain(self) -> None:
        self.take(self.outbox.drain())
        assert not self.outbox.waits

    @rule()
    def lose_the_hub(self) -> None:
        self.outbox.hub_lost()

    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """A client that saw everything up to a message of the event stream asks for the rest."""
        sent = self.seen + 1 if self.seen else 0
        since = data.draw(st.integers(0, sent))
        frames = self.outbox.replay(9, f"1:{since}", lembas=True)
        if any(b"_hub/gap" in frame.payload for frame in frames):
            assert since < sent
            return
        rest = [one for frame in frames for one in characters(frame)]
        assert rest == self.heard[len(self.heard) - len(rest) :]
        numbers = [frame.seq for frame in frames]
        assert numbers == sorted(set(numbers))
        assert all(since < number <= sent for number in numbers)
        if since == 0 and not self.gap:
            assert rest == self.heard

    @invariant()
    def nothing_is_lost_or_doubled_without_a_gap(self) -> None:
        if not self.gap:
            assert self.heard == self.said[: len(self.heard)]
            if not self.outbox.waits:
                assert self.heard == self.said


def characters(frame: Envelope) -> list[str]:
    message = msgspec.json.decode(frame.payload)
    if message["method"] != "_lembas/event":
        return []
    return [f"{piece}," for piece in message["params"]["event"]["text"].split(",") if piece]


test_outbox = OutboxMachine.TestCase
