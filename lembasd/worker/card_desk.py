"""Performs what the card machine decides: asks clients, tells the hub, wakes the engine."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, assert_never, overload

import msgspec

from lembasd.device.milestones import reached
from lembasd.engine.api import (
    CardRequest,
    Decision,
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
)
from lembasd.engine.core import cards
from lembasd.engine.core.card_kinds import Request
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import CardInfo
from lembasd.protocol.envelope import Envelope
from lembasd.worker import replies
from lembasd.worker.timers import Timers


class CardDesk:
    """The cards of one session. `say` sends a frame in its turn; `changed` is told how many wait.

    `judge` has the limits judged for the answer to the request of this id, and feeds what they say.
    """

    def __init__(
        self,
        session_id: str,
        epoch: int,
        say: Callable[[Envelope], None],
        changed: Callable[[int], None],
        judge: Callable[[str], None],
    ) -> None:
        self._id = session_id
        self._cards = cards.Cards(session_id, epoch)
        self._say = say
        self._changed = changed
        self._judge = judge
        self._timers = Timers()
        self._asks: dict[str, asyncio.Future[Any]] = {}

    @property
    def waiting(self) -> list[CardInfo]:
        return self._cards.waiting

    @overload
    async def ask(self, card: CardRequest, timeout_s: float | None) -> Decision: ...
    @overload
    async def ask(self, card: QuestionRequest, timeout_s: float | None) -> QuestionOutcome: ...
    @overload
    async def ask(self, card: PlanRequest, timeout_s: float | None) -> PlanOutcome: ...
    @overload
    async def ask(self, card: ShowRequest, timeout_s: float | None) -> ShowOutcome: ...

    async def ask(self, card: Request, timeout_s: float | None) -> Any:
        """Put the card and wait for its outcome. Whoever stops waiting takes it down."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._asks[card.tool_call_id] = future
        self.feed(cards.Ask(card, timeout_s))
        reached("worker.card_asked", session_id=self._id, call_id=card.tool_call_id)
        try:
            return await future
        finally:
            del self._asks[card.tool_call_id]
            self.feed(cards.Cancelled(card.tool_call_id))

    def feed(self, what: cards.Input) -> None:
        """Give the machine an input and perform what it decides."""
        for effect in self._cards.handle(what, asyncio.get_running_loop().time()):
            self._perform(effect)
        self._changed(len(self._cards.waiting))

    def _perform(self, effect: cards.Effect) -> None:
        match effect:
            case cards.Announce(card):
                payload = msgspec.json.encode(card)
                self._say(Envelope(kind=kinds.CARD, channel=self._id, payload=payload))
            case cards.Send(client, call, payload):
                self._say(replies.to_client(self._id, client, payload, card=call))
            case cards.Judge(request_id):
                self._judge(request_id)
            case cards.Outdated(client):
                self._say(Envelope(kind=kinds.OUTDATED, channel=self._id, client=client))
            case cards.Settle(call, client, payload):
                self._say(
                    Envelope(
                        kind=kinds.SETTLED,
                        channel=self._id,
                        client=client,
                        card=call,
                        payload=payload,
                    )
                )
            case cards.Decided(call, outcome):
                future = self._asks.get(call)
                if future is not None and not future.done():
                    future.set_result(outcome)
            case cards.SetTimer(key, at):
                self._timers.set(key, at, partial(self.feed, cards.TimerFired(key)))
            case cards.CancelTimer(key):
                self._timers.cancel(key)
            case _:
                assert_never(effect)

    def close(self) -> None:
        self._timers.close()
