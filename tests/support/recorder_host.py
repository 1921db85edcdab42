"""An engine's host that keeps what it is told, and does to the journal what a worker does."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lembasd.engine.api import CardRequest, Decision, TurnInput, TurnOutcome
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol.control import Account, Mode, Settings
from lembasd.protocol.events import AnyEvent
from lembasd.store.records import AnyRecord, TurnAccepted, TurnEnded, TurnStarted

T = TypeVar("T")

SESSION = "ses_" + "0" * 26
MODEL = "served"


class RecorderHost:
    """`log` holds records and events in the order in which they came; `journal` the records alone.

    `answer` decides a card; `on_record` and `on_event` see each before it is kept, and may raise.
    """

    def __init__(self, root: Path, base_url: str | None) -> None:
        self._root = root.resolve()
        account = None if base_url is None else Account(base_url=base_url, token="token")
        self.current = Settings(account=account)
        self.guarded: list[Path] = []
        self.log: list[AnyRecord | AnyEvent] = []
        self.journal: list[AnyRecord] = []
        self.events: list[AnyEvent] = []
        self.cards: list[CardRequest] = []
        self.newer: Account | None = None
        self.refused: list[Account | None] = []
        self.answer: Callable[[CardRequest], Decision] = lambda _card: Decision(outcome="once")
        self.on_record: Callable[[AnyRecord], None] = lambda _record: None
        self.on_event: Callable[[AnyEvent], None] = lambda _event: None
        self._news = asyncio.Event()

    # ── engine.api.Host ─────────────────────────────────────────────────────────────────────────

    @property
    def session_id(self) -> str:
        return SESSION

    @property
    def root(self) -> Path:
        return self._root

    @property
    def settings(self) -> Settings:
        return self.current

    @property
    def protected(self) -> list[Path]:
        return self.guarded

    def emit(self, event: AnyEvent) -> None:
        self.on_event(event)
        self.log.append(event)
        self.events.append(event)
        self._news.set()

    def record(self, record: AnyRecord) -> None:
        self.on_record(record)
        self.log.append(record)
        self.journal.append(record)
        self._news.set()

    async def sync(self) -> None:
        pass

    async def ask(self, card: CardRequest) -> Decision:
        self.cards.append(card)
        return self.answer(card)

    async def newer_account(self, refused: Account | None) -> Account | None:
        self.refused.append(refused)
        return self.newer

    # ── the worker's part ───────────────────────────────────────────────────────────────────────

    def engine(self, mode: Mode = "auto", *, effort: str = "default") -> NativeEngine:
        """The engine of this journal as it stands."""
        return NativeEngine(
            self, list(self.journal), mode=mode, model=MODEL, effort=effort, epoch=1
        )

    async def turn(self, engine: NativeEngine, text: str) -> TurnOutcome:
        """One turn as a worker runs it: its lines are written before and after the engine's."""
        turn_id = f"t{sum(isinstance(one, TurnStarted) for one in self.journal) + 1}"
        self.record(TurnAccepted(turn_id=turn_id, text=text))
        self.record(TurnStarted(turn_id=turn_id))
        outcome = await asyncio.wait_for(engine.run_turn(TurnInput(turn_id=turn_id, text=text)), 20)
        self.record(
            TurnEnded(turn_id=turn_id, stop_reason=outcome.stop_reason, error=outcome.error)
        )
        return outcome

    def of(self, kind: type[T]) -> list[T]:
        """What was recorded or emitted of one kind, in order."""
        return [one for one in self.log if isinstance(one, kind)]

    async def until(self, kind: type[T], count: int = 1) -> list[T]:
        """Wait for so many of a kind."""
        async with asyncio.timeout(20):
            while len(found := self.of(kind)) < count:
                self._news.clear()
                await self._news.wait()
        return found
