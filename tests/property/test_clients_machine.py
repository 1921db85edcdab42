"""A client's queue is bounded; only deltas are left out, and they come back; a cut client is told its gaps."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.hub.core.clients import CUT_BYTES, LAG_CHANNEL_BYTES, ClientQueue, Cut
from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope

SESSIONS = ["ses_" + letter * 26 for letter in "ab"]
SIZES = st.sampled_from([1, 1000, LAG_CHANNEL_BYTES, CUT_BYTES // 3])


class ClientMachine(RuleBasedStateMachine):
    """Plays two workers that keep everything they said, and a client that counts what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ClientQueue()
        self.said: dict[str, list[Envelope]] = {session: [] for session in SESSIONS}
        self.asked: dict[str, int] = {}
        #: for each session, the number of the last message the client has in order
        self.has: dict[str, int] = dict.fromkeys(SESSIONS, 0)
        self.answers_due = 0
        self.answers_given = 0
        self.is_cut = False

    def note(self, cut: Cut | None) -> None:
        if cut is not None:
            self.is_cut = True
            behind = {s for s in SESSIONS if self.has[s] < len(self.said[s])}
            assert behind <= {session for session, _since in cut.gaps}
            for session, since in cut.gaps:
                assert int(since.partition(":")[2]) == self.has[session]

    @precondition(lambda self: not self.is_cut)
    @rule(session=st.sampled_from(SESSIONS), size=SIZES, delta=st.booleans())
    def worker_says(self, session: str, size: int, delta: bool) -> None:
        message = Envelope(
            kind=kinds.RPC,
            channel=session,
            epoch=1,
            seq=len(self.said[session]) + 1,
            audience=kinds.ALL,
            delta=delta,
            payload=b"x" * size,
        )
        self.said[session].append(message)
        self.note(self.queue.offer(message))

    @precondition(lambda self: not self.is_cut)
    @rule(session=st.sampled_from(SESSIONS), size=SIZES)
    def worker_answers(self, session: str, size: int) -> None:
        self.answers_due += 1
        answer = Envelope(kind=kinds.RPC, channel=session, audience=kinds.ONE, payload=b"y" * size)
        self.note(self.queue.offer(answer))

    @precondition(lambda self: not self.is_cut)
    @rule(count=st.integers(1, 20))
    def socket_takes(self, count: int) -> None:
        for _ in range(count):
            message = self.queue.take()
            if message is None:
                break
            if message.seq:
                # in order, and none left out (a resent one may stand for several before it)
                assert message.seq > self.has[message.channel]
                resent = message.audience == kinds.ONE
                assert resent or message.seq == self.has[message.channel] + 1
                self.has[message.channel] = message.seq
            else:
                self.answers_given += 1
        for resend in self.queue.resends():
            assert resend.seq == self.has[resend.session]
            self.asked[resend.session] = resend.seq

    @precondition(lambda self: self.asked and not self.is_cut)
    @rule()
    def worker_resends(self) -> None:
        session, after = self.asked.popitem()
        missed = self.said[session][after:]
        if missed:
            # the worker merges what is adjacent: here everything into one
            last = missed[-1]
            merged = Envelope(
                kind=kinds.RPC,
                channel=session,
                epoch=1,
                seq=last.seq,
                audience=kinds.ONE,
                payload=b"m",
            )
            self.note(self.queue.offer(merged))
        if not self.is_cut:
            self.note(self.queue.resent(session))

    @precondition(lambda self: self.is_cut)
    @rule()
    def client_comes_back(self) -> None:
        """It reads history and status, so it knows everything up to now."""
        self.queue = ClientQueue()
        self.asked = {}
        self.has = {session: len(self.said[session]) for session in SESSIONS}
        self.answers_given = self.answers_due
        self.is_cut = False

    @invariant()
    def bytes_are_bounded(self) -> None:
        if self.is_cut:
            return  # it is thrown away with its connection
        held = self.queue.queued_bytes + self.queue.held_bytes
        assert held <= CUT_BYTES + CUT_BYTES // 3

    @invariant()
    def idle_means_that_nothing_waits(self) -> None:
        if self.queue.idle:
            assert self.queue.queued_bytes == self.queue.held_bytes == 0
            assert self.queue.lagging == []

    def teardown(self) -> None:
        """A client that reads on has everything in the end."""
        for _ in range(10):
            if self.is_cut:
                return
            self.socket_takes(10_000)
            while self.asked and not self.is_cut:
                self.worker_resends()
        if not self.is_cut:
            assert self.queue.idle
            assert self.has == {session: len(self.said[session]) for session in SESSIONS}
            assert self.answers_given == self.answers_due


TestClients = ClientMachine.TestCase
TestClients.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
