"""Whatever happens to cards, each has exactly one decision and a settled one is never decided again."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lembasd.engine.api import CardRequest
from lembasd.engine.core import cards

SESSION = "ses_" + "0" * 26
clients = st.integers(1, 3)


class CardsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cards = cards.Cards(SESSION, 1)
        self.now = 0.0
        self.asked = 0
        self.waiting: set[str] = set()
        self.decided: list[str] = []
        self.settled: list[str] = []
        self.timers: dict[str, float] = {}
        self.ids: list[str] = []
        self.attached: dict[int, bool] = {}

    def feed(self, what: cards.Input) -> None:
        for effect in self.cards.handle(what, self.now):
            match effect:
                case cards.Decided(call, _):
                    assert call in self.waiting, "a card was decided twice, or never asked"
                    self.waiting.discard(call)
                    self.decided.append(call)
                case cards.Settle(call):
                    self.settled.append(call)
                case cards.Show(client, call, payload):
                    assert client in self.attached
                    assert call in self.waiting
                    request_id = msgspec.json.decode(payload)["id"]
                    assert request_id not in self.ids, "an id was given twice"
                    self.ids.append(request_id)
                case cards.SetTimer(key, at):
                    assert key in self.waiting
                    assert key not in self.timers
                    self.timers[key] = at
                case cards.CancelTimer(key):
                    del self.timers[key]
                case cards.Announce():
                    pass

    @rule(timed=st.booleans())
    def ask(self, timed: bool) -> None:
        self.asked += 1
        call = f"call_{self.asked}"
        self.waiting.add(call)
        request = CardRequest(
            tool_call_id=call, name="bash", title="t", kind="execute", args={}, reason="r"
        )
        self.feed(cards.Ask(request, 300.0 if timed else None))

    @rule(client=clients, local=st.booleans())
    def attach(self, client: int, local: bool) -> None:
        self.attached[client] = local
        self.feed(cards.Attached(client, local))

    @rule(client=clients)
    def detach(self, client: int) -> None:
        self.attached.pop(client, None)
        self.feed(cards.Detached(client))

    @rule()
    def lose_the_hub(self) -> None:
        self.attached.clear()
        self.feed(cards.AllDetached())

    @rule(data=st.data(), result=st.sampled_from([b"", b"null", b'{"outcome":{"outcome":"x"}}']))
    def reply(self, data: st.DataObject, result: bytes) -> None:
        request_id = data.draw(st.sampled_from([*self.ids, "nobody's"]))
        self.feed(cards.Replied(1, request_id, result))

    @rule(data=st.data())
    def fire(self, data: st.DataObject) -> None:
        if self.timers:
            key = data.draw(st.sampled_from(sorted(self.timers)))
            self.now = max(self.now, self.timers.pop(key))
            self.feed(cards.TimerFired(key))

    @rule()
    def cancel(self) -> None:
        self.feed(cards.Cancelled())
        assert not self.waiting

    @invariant()
    def every_card_waits_or_has_one_decision(self) -> None:
        assert {card.tool_call_id for card in self.cards.waiting} == self.waiting
        assert len(self.decided) == len(set(self.decided))
        assert self.decided == self.settled
        assert len(self.decided) + len(self.waiting) == self.asked
        assert set(self.timers) <= self.waiting


test_cards = CardsMachine.TestCase
