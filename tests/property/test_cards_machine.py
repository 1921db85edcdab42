"""Whatever happens to cards of any kind, each has exactly one outcome and a settled one is never decided again."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lembasd.engine.api import CardRequest, Decision, PlanRequest, QuestionRequest, ShowRequest
from lembasd.engine.core import card_kinds, cards
from lembasd.engine.core.card_kinds import Outcome, Request, Watcher
from lembasd.protocol.control import Mode
from lembasd.protocol.interact import MAX_SHOWN_BYTES, Option, Question

SESSION = "ses_" + "0" * 26
REFUSED = "remote work is off"
clients = st.integers(1, 3)
watchers = st.builds(
    Watcher, st.booleans(), st.sampled_from([0, 1, 2, 3]), st.booleans(), st.booleans()
)
modes: st.SearchStrategy[Mode] = st.sampled_from(("plan", "manual", "edit", "auto"))
QUESTION = Question("h", "q", True, [Option("a"), Option("b")])
results = st.sampled_from(
    [
        b"",
        b"null",
        b'{"outcome":{"outcome":"x"}}',
        b'{"outcome":{"outcome":"selected","optionId":"once"}}',
        b'{"outcome":"answered","answers":[{"kind":"options","labels":["a"]}]}',
        b'{"outcome":"answered","answers":[]}',
        b'{"outcome":"approve","mode":"edit"}',
        b'{"outcome":"revise","feedback":"no"}',
        b'{"shown":true}',
    ]
)


def request(kind: str, call: str) -> Request:
    match kind:
        case "permission":
            return CardRequest(
                tool_call_id=call, name="bash", title="t", kind="execute", args={}, reason="r"
            )
        case "question":
            return QuestionRequest(tool_call_id=call, questions=[QUESTION])
        case "plan":
            return PlanRequest(tool_call_id=call, path="p.md", text="# P")
        case _:
            text = "a" if kind == "show" else "a" * (MAX_SHOWN_BYTES + 1)
            return ShowRequest(tool_call_id=call, path="a", kind="text", text=text)


def is_allowing(outcome: Outcome) -> bool:
    """Whether it lets the model do anything, or tells it what a client said."""
    said = isinstance(outcome, Decision) and outcome.feedback not in (None, REFUSED)
    return said or outcome.outcome in ("once", "session", "answered", "approve", "revise")


class CardsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cards = cards.Cards(SESSION, 1)
        self.now = 0.0
        self.asked = 0
        self.waiting: dict[str, Request] = {}
        self.decided: list[str] = []
        self.settled: list[str] = []
        self.quiet: list[str] = []
        self.timers: dict[str, float] = {}
        #: by request id, the client and its call
        self.ids: dict[str, tuple[int, str]] = {}
        self.attached: dict[int, Watcher] = {}
        self.judging: list[str] = []
        self.may_allow = False
        self.is_asking = False

    def feed(self, what: cards.Input) -> None:
        for effect in self.cards.handle(what, self.now):
            match effect:
                case cards.Decided(call, outcome):
                    assert call in self.waiting, "a card was decided twice, or never asked"
                    if isinstance(self.waiting.pop(call), ShowRequest):
                        self.quiet.append(call)
                    elif self.is_asking:
                        self.quiet.append(call)  # nobody was asked: nobody is told
                    self.decided.append(call)
                    assert self.may_allow or not is_allowing(outcome)
                case cards.Settle(call):
                    self.settled.append(call)
                case cards.Send(client, card, payload):
                    message = msgspec.json.decode(payload)
                    params = message["params"]
                    call = params.get("toolCallId") or params["toolCall"]["toolCallId"]
                    assert card_kinds.may_see(self.waiting[call], self.attached[client])
                    assert card in ("", call)
                    assert message["id"] not in self.ids, "an id was given twice"
                    self.ids[message["id"]] = client, call
                case cards.SetTimer(key, at):
                    assert key in self.waiting
                    assert key not in self.timers
                    self.timers[key] = at
                case cards.CancelTimer(key):
                    del self.timers[key]
                case cards.Judge(request_id):
                    client, call = self.ids[request_id]
                    assert not self.attached[client].local
                    assert request_id not in self.judging
                    self.judging.append(request_id)
                case cards.Outdated(client):
                    self.lowered(client)
                case cards.Announce():
                    pass

    def lowered(self, client: int) -> None:
        watcher = self.attached.get(client)
        if watcher is not None and watcher.protocol > 1:
            self.attached[client] = msgspec.structs.replace(watcher, protocol=1)

    @rule(
        timed=st.booleans(),
        kind=st.sampled_from(["permission", "question", "plan", "show", "show too much"]),
    )
    def ask(self, timed: bool, kind: str) -> None:
        self.asked += 1
        call = f"call_{self.asked}"
        self.waiting[call] = request(kind, call)
        self.is_asking = True
        self.feed(cards.Ask(self.waiting[call], 300.0 if timed else None))
        self.is_asking = False

    @rule(client=clients, watcher=watchers)
    def attach(self, client: int, watcher: Watcher) -> None:
        self.attached[client] = watcher
        self.feed(cards.Attached(client, watcher))

    @rule(client=clients)
    def lower(self, client: int) -> None:
        self.lowered(client)
        self.feed(cards.Lowered(client))

    @rule(client=clients)
    def detach(self, client: int) -> None:
        self.attached.pop(client, None)
        self.feed(cards.Detached(client))

    @rule()
    def lose_the_hub(self) -> None:
        self.attached.clear()
        self.feed(cards.AllDetached())

    @rule(data=st.data(), result=results, error=st.sampled_from([0, -32601, -32603]))
    def reply(self, data: st.DataObject, result: bytes, error: int) -> None:
        request_id = data.draw(st.sampled_from([*self.ids, "nobody's"]))
        client, _ = self.ids.get(request_id, (1, ""))
        by = data.draw(st.sampled_from([client, 1, 2, 3]))
        self.may_allow = by == client and by in self.attached and self.attached[by].local
        self.feed(cards.Replied(by, request_id, result, error))
        self.may_allow = False

    @rule(data=st.data(), refused=st.sampled_from(["", REFUSED]), ceiling=modes)
    def judge(self, data: st.DataObject, refused: str, ceiling: Mode) -> None:
        if not self.judging:
            return
        request_id = data.draw(st.sampled_from(self.judging))
        self.judging.remove(request_id)
        self.may_allow = not refused
        self.feed(cards.Judged(request_id, refused, ceiling))
        self.may_allow = False

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
    def every_card_waits_or_has_one_outcome(self) -> None:
        shown = {call for call, one in self.waiting.items() if isinstance(one, ShowRequest)}
        assert {card.tool_call_id for card in self.cards.waiting} == self.waiting.keys() - shown
        assert len(self.decided) == len(set(self.decided))
        assert self.decided == sorted([*self.settled, *self.quiet], key=self.decided.index), (
            "what was shown to somebody is settled, once"
        )
        assert len(self.decided) + len(self.waiting) == self.asked
        assert set(self.timers) <= self.waiting.keys()


test_cards = CardsMachine.TestCase
