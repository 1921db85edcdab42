"""However many clients join, drop out, come back and read slowly: each has the whole text, and none waits for another.

A real outbox says it, each client's real queue passes it on, and cards are kept by the real table of places.
"""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.hub.core.approvals import Approvals
from lembasd.hub.core.clients import CUT_BYTES, LAG_CHANNEL_BYTES, ClientQueue, Cut
from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.events import Notice, Text
from lembasd.worker.core.live import Live
from lembasd.worker.core.outbox import Outbox

SESSION = "ses_" + "a" * 26
#: short enough that a client that is away is told of a gap now and then
RING_BYTES = 4 * LAG_CHANNEL_BYTES


class Client:
    """One client: what it has of the text, and the number of the last message it saw."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.queue = ClientQueue()
        self.text = ""
        self.seen: str | None = None
        self.cards: set[str] = set()
        self.settled: list[str] = []
        #: it was told of a gap, and waits for a snapshot
        self.lost = False

    def take(self, message: Envelope) -> None:
        if message.seq:
            self.seen = f"{message.epoch}:{message.seq}"
        if message.kind != kinds.RPC or not message.payload:
            return
        said: dict[str, Any] = msgspec.json.decode(message.payload)
        if said["method"] == "card":
            self.cards.add(said["params"])
        elif said["method"] == "settled":
            self.cards.discard(said["params"])
            self.settled.append(said["params"])
        elif said["method"] == "_hub/gap":
            self.lost = True
        elif said["method"] == "snapshot":
            self.lost = False
            self.text, self.seen = said["params"]
        elif self.lost:
            pass
        elif said["method"] == "_lembas/event" and said["params"]["event"]["type"] == "text":
            self.text += said["params"]["event"]["text"]


class ManyClients(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(SESSION, 1, RING_BYTES)
        self.live = Live()
        self.approvals = Approvals()
        self.text = ""
        self.clients: dict[int, Client] = {}
        #: those that dropped out and may come back
        self.away: list[Client] = []
        self.last_client = 0
        self.waiting: list[str] = []
        self.last_card = 0
        self.resends: list[tuple[Client, int, int]] = []

    # ── the hub ─────────────────────────────────────────────────────────────────────────────────

    def route(self, messages: list[Envelope]) -> None:
        for message in messages:
            if message.audience in (kinds.ALL, kinds.LEMBAS):
                for client in list(self.clients.values()):
                    self.offer(client, message)
            elif message.client in self.clients:
                client = self.clients[message.client]
                if message.kind == kinds.RESENT:
                    self.after(client, client.queue.resent(SESSION))
                else:
                    self.offer(client, message)

    def offer(self, client: Client, message: Envelope) -> None:
        if client.number in self.clients:
            self.after(client, client.queue.offer(message))

    def after(self, client: Client, cut: Cut | None) -> None:
        if cut is not None:
            self.drop(client)

    def drop(self, client: Client) -> None:
        del self.clients[client.number]
        self.approvals.client_left(client.number)
        self.resends = [one for one in self.resends if one[0] is not client]
        self.away.append(client)

    def joined(self, client: Client) -> None:
        """The answer to its attach has come: what it missed, or a snapshot; then the cards that wait."""
        self.last_client += 1
        client.number, client.queue = self.last_client, ClientQueue()
        client.cards.clear()
        self.clients[client.number] = client
        rest = None
        if client.seen is not None and not client.lost:
            rest = self.outbox.rest(client.number, client.seen, lembas=True)
        if rest is None:
            self.give_snapshot(client)
        else:
            self.route(rest)
        for card in self.waiting:
            self.show(card, client)

    def give_snapshot(self, client: Client) -> None:
        (whole,) = self.live.events or [Text("", "m")]
        assert isinstance(whole, Text)
        params = [whole.text, self.outbox.place]
        payload = msgspec.json.encode({"method": "snapshot", "params": params})
        self.after(client, client.queue.restart(SESSION))
        self.offer(client, Envelope(kind=kinds.RPC, channel=SESSION, payload=payload))

    def show(self, card: str, client: Client) -> None:
        if client.number in self.clients:
            self.approvals.shown(SESSION, card, client.number)
            payload = msgspec.json.encode({"method": "card", "params": card})
            message = Envelope(
                kind=kinds.RPC, channel=SESSION, card=card, audience=kinds.ONE, payload=payload
            )
            self.offer(client, message)

    # ── what happens ────────────────────────────────────────────────────────────────────────────

    @rule()
    def a_client_joins(self) -> None:
        self.joined(Client(0))

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def a_client_comes_back(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.away))
        self.away.remove(client)
        self.joined(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_drops_out(self, data: st.DataObject) -> None:
        self.drop(self.clients[data.draw(st.sampled_from(sorted(self.clients)))])

    @rule(length=st.sampled_from([1, 3000, LAG_CHANNEL_BYTES // 2]))
    def the_model_says_something(self, length: int) -> None:
        piece = (f"{len(self.text)}," * (length // 2 + 1))[:length]
        self.text += piece
        event = Text(piece, "m")
        self.live.said(event)
        self.route(self.outbox.say(event, ready=True))

    @rule()
    def something_else_is_said(self) -> None:
        self.route(self.outbox.say(Notice("info", "n"), ready=True))

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), count=st.integers(1, 50))
    def a_client_reads(self, data: st.DataObject, count: int) -> None:
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        self.read(client, count)

    def read(self, client: Client, count: int) -> None:
        for _ in range(count):
            message = client.queue.take()
            if message is None:
                break
            client.take(message)
        due = client.queue.resends()
        self.resends += [(client, one.epoch, one.seq) for one in due]

    @precondition(lambda self: self.resends)
    @rule()
    def the_worker_resends(self) -> None:
        client, epoch, seq = self.resends.pop(0)
        self.route(self.outbox.resend(client.number, epoch, seq, lembas=True, local=True))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_asks_for_a_snapshot(self, data: st.DataObject) -> None:
        self.give_snapshot(self.clients[data.draw(st.sampled_from(sorted(self.clients)))])

    @rule()
    def a_card_is_asked(self) -> None:
        self.last_card += 1
        card = f"call{self.last_card}"
        self.waiting.append(card)
        self.approvals.waiting(SESSION, card)
        for client in list(self.clients.values()):
            self.show(card, client)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_card_is_settled(self, data: st.DataObject) -> None:
        card = data.draw(st.sampled_from(self.waiting))
        seers = sorted(one.number for one in self.clients.values() if card in one.cards)
        by = data.draw(st.sampled_from([0, *seers]))
        self.waiting.remove(card)
        for number in self.approvals.settled(SESSION, card, by):
            client = self.clients[number]
            if not client.queue.card_settled(SESSION, card):
                payload = msgspec.json.encode({"method": "settled", "params": card})
                self.offer(client, Envelope(kind=kinds.RPC, channel=SESSION, payload=payload))
        if by:
            self.clients[by].cards.discard(card)

    # ── what always holds ───────────────────────────────────────────────────────────────────────

    @invariant()
    def nobody_has_anything_twice_or_out_of_order(self) -> None:
        for client in (*self.clients.values(), *self.away):
            assert self.text.startswith(client.text)

    @invariant()
    def what_is_kept_for_a_client_is_bounded(self) -> None:
        for client in self.clients.values():
            held = client.queue.queued_bytes + client.queue.held_bytes
            assert held <= CUT_BYTES + RING_BYTES

    def teardown(self) -> None:
        """Whoever reads on has the whole text and exactly the cards that wait."""
        for _ in range(100):
            for client in list(self.clients.values()):
                self.read(client, 10_000)
                if client.lost:
                    self.give_snapshot(client)
            while self.resends:
                self.the_worker_resends()
        for client in self.clients.values():
            assert client.queue.idle
            assert client.text == self.text
            assert client.cards == set(self.waiting)


TestManyClients = ManyClients.TestCase
TestManyClients.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
