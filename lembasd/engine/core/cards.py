"""Permission cards of one session: each has exactly one decision, whoever answers first and however many are asked.

The machine says whom to ask, when a card's time is over, and what was decided. Where else a card is shown is the
hub's business; what a decision does to a call is the engine's.
"""

from typing import Final, assert_never

import msgspec
from msgspec import UNSET, Struct

from lembasd.engine.api import CardRequest, Decision
from lembasd.protocol import jsonrpc
from lembasd.protocol.acp import (
    CardLembas,
    CardMeta,
    PermissionOption,
    PermissionParams,
    PermissionResult,
    ToolCall,
)
from lembasd.protocol.control import CardInfo
from lembasd.protocol.ids import card_id

_ONCE: Final = PermissionOption(optionId="once", name="Allow once", kind="allow_once")
_SESSION: Final = PermissionOption(
    optionId="session", name="Allow for this session", kind="allow_always"
)
_DENY: Final = PermissionOption(optionId="deny", name="Deny", kind="reject_once")
_result: Final = msgspec.json.Decoder(PermissionResult)


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Ask(Struct, frozen=True):
    """The engine asks. `timeout_s`: how long a card waits that nobody at this machine sees; None: for ever."""

    request: CardRequest
    timeout_s: float | None


class Attached(Struct, frozen=True):
    """A client is attached: it is asked what waits. `local`: a person at this machine."""

    client: int
    local: bool


class Detached(Struct, frozen=True):
    client: int


class AllDetached(Struct, frozen=True):
    """The hub is gone, and with it every client."""


class Replied(Struct, frozen=True):
    """A client's reply to the request `id`. `result` is its JSON text, b"" when the reply is an error."""

    client: int
    id: str
    result: bytes


class Cancelled(Struct, frozen=True):
    """The turn is cancelled. `tool_call_id` None: every card; else that one."""

    tool_call_id: str | None = None


class TimerFired(Struct, frozen=True):
    key: str


Input = Ask | Attached | Detached | AllDetached | Replied | Cancelled | TimerFired


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class Announce(Struct, frozen=True):
    """Tell the hub that a card waits, before anybody is asked."""

    card: CardInfo


class Show(Struct, frozen=True):
    """Send the finished request to a client."""

    client: int
    tool_call_id: str
    payload: bytes


class Settle(Struct, frozen=True):
    """Tell the hub that the card is settled; `client` answered it (0: none did)."""

    tool_call_id: str
    client: int
    payload: bytes


class Decided(Struct, frozen=True):
    """The card's one decision."""

    tool_call_id: str
    decision: Decision


class SetTimer(Struct, frozen=True):
    """Give TimerFired(key) at `at` (the clock of `now`)."""

    key: str
    at: float


class CancelTimer(Struct, frozen=True):
    key: str


Effect = Announce | Show | Settle | Decided | SetTimer | CancelTimer


class _Card(Struct):
    request: CardRequest
    timeout_s: float | None
    info: CardInfo
    timed: bool = False


class Cards:
    """The cards of a session that wait. `epoch` is this life's, so that ids of an earlier one match nothing."""

    def __init__(self, session_id: str, epoch: int) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._next = 0
        self._waiting: dict[str, _Card] = {}
        #: request id → toolCallId, of the cards that wait
        self._asked: dict[str, str] = {}
        #: attached clients, and whether each is local
        self._clients: dict[int, bool] = {}

    @property
    def waiting(self) -> list[CardInfo]:
        """The cards that wait, as last asked."""
        return [card.info for card in self._waiting.values()]

    def handle(self, what: Input, now: float) -> list[Effect]:
        """Take one input; `now` is monotonic seconds. Raises ValueError when a call that waits is asked again."""
        match what:
            case Ask():
                return self._ask(what, now)
            case Attached(client, local):
                self._clients[client] = local
                return [self._show(card, client) for card in self._waiting.values()]
            case Detached(client):
                self._clients.pop(client, None)
                return self._time(now)
            case AllDetached():
                self._clients.clear()
                self._asked.clear()
                return self._time(now)
            case Replied():
                return self._replied(what)
            case Cancelled(one):
                gone = list(self._waiting) if one is None else [one]
                decision = Decision(outcome="cancelled")
                return [effect for call in gone for effect in self._settle(call, decision)]
            case TimerFired(key):
                if key in self._waiting:
                    self._waiting[key].timed = False  # its timer is used up
                return self._settle(key, Decision(outcome="timeout"))
            case _:
                assert_never(what)

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    def _ask(self, what: Ask, now: float) -> list[Effect]:
        call = what.request.tool_call_id
        if call in self._waiting:
            raise ValueError(f"the card of {call} waits already")
        info = CardInfo(id=self._number(), tool_call_id=call, patient=self._patient)
        card = self._waiting[call] = _Card(what.request, what.timeout_s, info)
        shown = [self._show(card, client) for client in self._clients]
        return [Announce(info), *shown, *self._time(now)]

    @property
    def _patient(self) -> bool:
        """Whether a person at this machine may answer too."""
        return any(self._clients.values())

    def _number(self) -> str:
        self._next += 1
        return card_id(self._session_id, self._epoch, self._next)

    def _show(self, card: _Card, client: int) -> Effect:
        request_id = self._number()
        call = card.request.tool_call_id
        card.info = CardInfo(id=request_id, tool_call_id=call, patient=self._patient)
        self._asked[request_id] = call
        params = _params(self._session_id, card.request, patient=self._patient)
        payload = jsonrpc.request(request_id, "session/request_permission", params)
        return Show(client, call, payload)

    def _time(self, now: float) -> list[Effect]:
        """Start the time of every card that has one, unless a person here sees it. Started, it never stops."""
        effects: list[Effect] = []
        if self._patient:
            return effects
        for call, card in self._waiting.items():
            if card.timeout_s is not None and not card.timed:
                card.timed = True
                effects.append(SetTimer(call, now + card.timeout_s))
        return effects

    # ── deciding ────────────────────────────────────────────────────────────────────────────────

    def _replied(self, what: Replied) -> list[Effect]:
        call = self._asked.get(what.id)
        # a late answer finds nothing; an error comes from a client that shows no cards: others may answer
        if call is None or not what.result:
            return []
        always = self._waiting[call].request.always is not None
        return self._settle(call, read_answer(what.result, always=always), what.client)

    def _settle(self, call: str, decision: Decision, client: int = 0) -> list[Effect]:
        card = self._waiting.pop(call, None)
        if card is None:
            return []
        self._asked = {key: asked for key, asked in self._asked.items() if asked != call}
        payload = jsonrpc.notification(
            "_lembas/permission/settled", {"sessionId": self._session_id, "toolCallId": call}
        )
        timer: list[Effect] = [CancelTimer(call)] if card.timed else []
        return [*timer, Settle(call, client, payload), Decided(call, decision)]


def _params(session_id: str, card: CardRequest, *, patient: bool) -> PermissionParams:
    options = [_ONCE, _DENY] if card.always is None else [_ONCE, _SESSION, _DENY]
    return PermissionParams(
        sessionId=session_id,
        toolCall=ToolCall(
            toolCallId=card.tool_call_id,
            title=card.title,
            kind=card.kind,
            rawInput=card.args,
            content=UNSET if card.content is None else card.content,
        ),
        options=options,
        meta=CardMeta(
            lembas=CardLembas(
                reason=card.reason,
                purpose=UNSET if card.purpose is None else card.purpose,
                always=UNSET if card.always is None else card.always,
                patient=True if patient else UNSET,
            )
        ),
    )


def read_answer(result: bytes, *, always: bool) -> Decision:
    """What a client's result says. What cannot be read, or was not offered, is a denial.

    `always`: "allow for this session" was offered.
    """
    try:
        answer = _result.decode(result)
    except (msgspec.MsgspecError, RecursionError):
        return Decision(outcome="deny")
    said, option = answer.meta.lembas, answer.outcome.optionId
    if answer.outcome.outcome == "selected":
        if option == "once":
            return Decision(outcome="once", command=said.command)
        if option == "session" and always:
            return Decision(outcome="session")
    return Decision(outcome="deny", feedback=said.feedback)
