"""What one session asks of people: each card has exactly one outcome, whoever answers first and however many are asked.

The machine says whom to ask, when a card's time is over, and what came of it. Where else a card is shown is the hub's
business; what an outcome does to a call is the engine's. Cards are permissions, questions, plans and files to show.
"""

from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from lembasd.engine.api import CardRequest, ShowRequest
from lembasd.engine.core import card_kinds
from lembasd.engine.core.card_kinds import Outcome, Request, Watcher, Why
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import CardInfo, Mode
from lembasd.protocol.errors import METHOD_NOT_FOUND
from lembasd.protocol.ids import card_id

#: what a client is that does not know a question or a plan (link.md, Versions)
_FIRST_PROTOCOL: Final = 1


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Ask(Struct, frozen=True):
    """The engine asks. `timeout_s`: how long a card waits that nobody at this machine sees; None: for ever."""

    request: Request
    timeout_s: float | None


class Attached(Struct, frozen=True):
    """A client is attached: it is asked what waits, of what it knows."""

    client: int
    watcher: Watcher


class Lowered(Struct, frozen=True):
    """A client has turned out, in this session or another, to be one of protocol 1: it is asked no question and no plan."""

    client: int


class Detached(Struct, frozen=True):
    client: int


class AllDetached(Struct, frozen=True):
    """The hub is gone, and with it every client."""


class Replied(Struct, frozen=True):
    """A client's reply to the request `id`. `result` is its JSON text, b"" when the reply is an error of code `error`."""

    client: int
    id: str
    result: bytes
    error: int = 0


class Judged(Struct, frozen=True):
    """What the device's limits say of the answer to the request `id`.

    `refused`: why it does not count, "": it does. `ceiling`: the widest mode that it may choose.
    """

    id: str
    refused: str
    ceiling: Mode


class Cancelled(Struct, frozen=True):
    """The turn is cancelled. `tool_call_id` None: every card; else that one."""

    tool_call_id: str | None = None


class TimerFired(Struct, frozen=True):
    key: str


Input = (
    Ask | Attached | Lowered | Detached | AllDetached | Replied | Judged | Cancelled | TimerFired
)


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class Announce(Struct, frozen=True):
    """Tell the hub that a card waits, before anybody is asked."""

    card: CardInfo


class Send(Struct, frozen=True):
    """Send the finished request to a client. `card`: the toolCallId of what is settled later, "" of what never is."""

    client: int
    card: str
    payload: bytes


class Judge(Struct, frozen=True):
    """Judge, by the device's limits as they are now, whether the link's answer to the request `id` counts."""

    id: str


class Outdated(Struct, frozen=True):
    """Tell the hub that a client is one of protocol 1."""

    client: int


class Settle(Struct, frozen=True):
    """Tell the hub that the card is settled; `client` answered it (0: none did)."""

    tool_call_id: str
    client: int
    payload: bytes


class Decided(Struct, frozen=True):
    """The card's one outcome."""

    tool_call_id: str
    outcome: Outcome


class SetTimer(Struct, frozen=True):
    """Give TimerFired(key) at `at` (the clock of `now`)."""

    key: str
    at: float


class CancelTimer(Struct, frozen=True):
    key: str


Effect = Announce | Send | Judge | Outdated | Settle | Decided | SetTimer | CancelTimer


class _Card(Struct):
    request: Request
    timeout_s: float | None
    info: CardInfo
    timed: bool = False

    @property
    def is_permission(self) -> bool:
        return isinstance(self.request, CardRequest)

    @property
    def is_show(self) -> bool:
        """A file is no card: nobody is told when it is over, and no person at this machine holds it up."""
        return isinstance(self.request, ShowRequest)


class _Asked(Struct, frozen=True):
    """A request that a client has not answered. `answer`: it has, and the limits are yet to say whether that counts."""

    call: str
    client: int
    answer: bytes = b""


class Cards:
    """The cards of a session that wait. `epoch` is this life's, so that ids of an earlier one match nothing."""

    def __init__(self, session_id: str, epoch: int) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._next = 0
        self._waiting: dict[str, _Card] = {}
        #: by request id
        self._asked: dict[str, _Asked] = {}
        self._clients: dict[int, Watcher] = {}

    @property
    def waiting(self) -> list[CardInfo]:
        """The cards that wait, as last asked; a file that is being shown is none."""
        return [card.info for card in self._waiting.values() if not card.is_show]

    def handle(self, what: Input, now: float) -> list[Effect]:
        """Take one input; `now` is monotonic seconds.

        Raises ValueError when a call that waits is asked again, and for questions that no card holds.
        """
        match what:
            case Ask():
                return self._ask(what, now)
            case Attached(client, watcher):
                self._clients[client] = watcher
                return [
                    self._send(card, client)
                    for card in self._waiting.values()
                    if card_kinds.may_see(card.request, watcher)
                ]
            case Lowered(client):
                return self._lower(client)
            case Detached() | AllDetached():
                return self._detached(what, now)
            case Replied():
                return self._replied(what)
            case Judged():
                return self._judged(what)
            case Cancelled(one):
                gone = list(self._waiting) if one is None else [one]
                return [effect for call in gone for effect in self._give_up(call, "cancelled")]
            case TimerFired(key):
                if key in self._waiting:
                    self._waiting[key].timed = False  # its timer is used up
                return self._give_up(key, "timeout")
            case _:
                assert_never(what)

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def _ask(self, what: Ask, now: float) -> list[Effect]:
        request, call = what.request, what.request.tool_call_id
        if call in self._waiting:
            raise ValueError(f"the card of {call} waits already")
        card_kinds.check(request)
        refused = card_kinds.refusal(request)
        if refused is not None:
            return [Decided(call, refused)]
        asked = [
            client
            for client, watcher in self._clients.items()
            if card_kinds.may_see(request, watcher)
        ]
        info = CardInfo(id="", tool_call_id=call)
        card = _Card(request, what.timeout_s, info)
        if not asked and not self._awaits_link(card):
            return [Decided(call, card_kinds.unanswered(request, "nobody"))]
        card.info = self._info(card)
        self._waiting[call] = card
        announced: list[Effect] = [] if card.is_show else [Announce(card.info)]
        sent = [self._send(card, client) for client in asked]
        return [*announced, *sent, *self._time(now)]

    def _awaits_link(self, card: _Card) -> bool:
        """Whether who is to answer may yet come: a person here for a permission, the link's client while the link is down."""
        if card.is_permission:
            return True
        is_up = any(not watcher.local for watcher in self._clients.values())
        return card.timeout_s is not None and not card.is_show and not is_up

    def _is_patient(self, card: _Card) -> bool:
        """Whether a person at this machine may answer too."""
        return not card.is_show and any(
            watcher.local and card_kinds.may_see(card.request, watcher)
            for watcher in self._clients.values()
        )

    def _info(self, card: _Card) -> CardInfo:
        self._next += 1
        return CardInfo(
            id=card_id(self._session_id, self._epoch, self._next),
            tool_call_id=card.request.tool_call_id,
            kind=card_kinds.name(card.request),
            patient=self._is_patient(card),
        )

    def _send(self, card: _Card, client: int) -> Effect:
        card.info = self._info(card)
        call = card.request.tool_call_id
        self._asked[card.info.id] = _Asked(call, client)
        method, params = card_kinds.sent(self._session_id, card.request, patient=card.info.patient)
        payload = jsonrpc.request(card.info.id, method, params)
        return Send(client, "" if card.is_show else call, payload)

    def _time(self, now: float) -> list[Effect]:
        """Start the time of every card that has one, unless a person here sees it. Started, it never stops."""
        effects: list[Effect] = []
        for call, card in self._waiting.items():
            if card.timeout_s is not None and not card.timed and not self._is_patient(card):
                card.timed = True
                effects.append(SetTimer(call, now + card.timeout_s))
        return effects

    # ── clients ─────────────────────────────────────────────────────────────────────────────────

    def _detached(self, what: Detached | AllDetached, now: float) -> list[Effect]:
        """What a client has answered counts, though it is gone; what it was asked, it is asked again when it is back."""
        gone = list(self._clients) if isinstance(what, AllDetached) else [what.client]
        for client in gone:
            self._clients.pop(client, None)
        self._asked = {
            key: asked
            for key, asked in self._asked.items()
            if asked.answer or asked.client not in gone
        }
        return self._time(now)

    def _lower(self, client: int) -> list[Effect]:
        """The client is asked no question and no plan any more; those that it alone was asked are over."""
        known = self._clients.get(client)
        if known is None or known.protocol <= _FIRST_PROTOCOL:
            return []
        self._clients[client] = replace(known, protocol=_FIRST_PROTOCOL)
        calls = {
            asked.call
            for asked in self._asked.values()
            if asked.client == client and not self._still_asks(asked.call, client)
        }
        self._asked = {
            key: asked
            for key, asked in self._asked.items()
            if asked.client != client or asked.call not in calls
        }
        return [effect for call in sorted(calls) for effect in self._unless_asked(call, "nobody")]

    def _still_asks(self, call: str, client: int) -> bool:
        return card_kinds.may_see(self._waiting[call].request, self._clients[client])

    # ── answers ─────────────────────────────────────────────────────────────────────────────────

    def _replied(self, what: Replied) -> list[Effect]:
        asked = self._asked.get(what.id)
        # a late answer finds nothing, and a first one is being judged
        if asked is None or asked.client != what.client or asked.answer:
            return []
        card = self._waiting[asked.call]
        if not what.result:
            return self._failed(what, card)
        watcher = self._clients[what.client]
        if watcher.local or card.is_show:
            return self._answered(what.id, what.result, None)
        self._asked[what.id] = replace(asked, answer=what.result)
        return [Judge(what.id)]

    def _failed(self, what: Replied, card: _Card) -> list[Effect]:
        """The client answers with an error: it shows no such card, and others may answer."""
        if card.is_permission:
            return []
        if what.error == METHOD_NOT_FOUND and not card.is_show:
            return [Outdated(what.client), *self._lower(what.client)]
        del self._asked[what.id]
        return self._unless_asked(card.request.tool_call_id, "void")

    def _judged(self, what: Judged) -> list[Effect]:
        asked = self._asked.get(what.id)
        if asked is None:
            return []
        if what.refused:
            del self._asked[what.id]
            return self._unless_asked(asked.call, "void", what.refused)
        return self._answered(what.id, asked.answer, what.ceiling)

    def _answered(self, request_id: str, result: bytes, ceiling: Mode | None) -> list[Effect]:
        asked = self._asked.pop(request_id)
        outcome = card_kinds.read(self._waiting[asked.call].request, result, ceiling)
        if outcome is None:
            return self._unless_asked(asked.call, "void")
        return self._settle(asked.call, outcome, asked.client)

    def _unless_asked(self, call: str, why: Why, reason: str = "") -> list[Effect]:
        """The card ends, unless somebody else is asked or is waited for."""
        if any(asked.call == call for asked in self._asked.values()):
            return []
        card = self._waiting[call]
        if why == "nobody" and self._awaits_link(card):
            return []
        return self._give_up(call, why, reason)

    def _give_up(self, call: str, why: Why, reason: str = "") -> list[Effect]:
        card = self._waiting.get(call)
        if card is None:
            return []
        return self._settle(call, card_kinds.unanswered(card.request, why, reason))

    def _settle(self, call: str, outcome: Outcome, client: int = 0) -> list[Effect]:
        card = self._waiting.pop(call)
        self._asked = {key: asked for key, asked in self._asked.items() if asked.call != call}
        timer: list[Effect] = [CancelTimer(call)] if card.timed else []
        if card.is_show:
            return [*timer, Decided(call, outcome)]
        payload = jsonrpc.notification(
            "_lembas/permission/settled", {"sessionId": self._session_id, "toolCallId": call}
        )
        return [*timer, Settle(call, client, payload), Decided(call, outcome)]
