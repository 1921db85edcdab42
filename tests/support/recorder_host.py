"""A host that keeps what an engine says, records and asks."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from lembasd.engine.api import (
    CardRequest,
    Decision,
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
    TurnInput,
    TurnOutcome,
)
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol.control import Account, Mode, SettingKey, Settings
from lembasd.protocol.events import AnyEvent, ToolEnd
from lembasd.protocol.ids import SESSION_RANDOM_BYTES, session_id
from lembasd.protocol.mcp import McpServer
from lembasd.store.records import (
    AnyRecord,
    Attachment,
    Image,
    ToolResult,
    TurnAccepted,
    TurnStarted,
)

T = TypeVar("T")


class RecorderHost:
    """`engine.api.Host`. `decisions` answers cards in their order; a card with none left waits for `decide`."""

    def __init__(self, root: Path, base_url: str) -> None:
        # its own for each: runs side by side must not find each other's commands by their marker
        self.session_id = session_id(os.urandom(SESSION_RANDOM_BYTES))
        self.root = root
        self.settings = Settings(account=Account(base_url=base_url, token="first"))
        self.protected: list[Path] = []
        #: beside the project, not in it: a look into the project shows the project
        self.session_dir = root.parent / f"{root.name}-session"
        self.attachments_dir = root.parent / f"{root.name}-attachments"
        self.commands_dir = root.parent / f"{root.name}-commands"
        self.widest_mode: Mode = "auto"
        #: modes that a command set; the engine made last follows, as in a worker
        self.command_modes: list[Mode] = []
        self._engine: NativeEngine | None = None
        self.wishes: list[tuple[SettingKey, str]] = []
        self.client_servers: list[McpServer] = []
        self.scope: str | None = None
        self.events: list[AnyEvent] = []
        self.records: list[AnyRecord] = []
        #: records and events in one order
        self.said: list[AnyEvent | AnyRecord] = []
        self.cards: list[CardRequest] = []
        self.decisions: list[Decision] = []
        self.images: dict[str, bytes] = {}
        self.has_room_for_images = True
        #: what instances answered when they were asked for their models
        self.lists: dict[str, bytes] = {}
        #: cleared, an image takes for ever to be stored
        self.stores_images = asyncio.Event()
        self.stores_images.set()
        self.image_came = asyncio.Event()
        self.facts: dict[tuple[str, str], list[str]] = {}
        self.newer: Account | None = None
        self.full_disk: Callable[[AnyRecord], bool] = lambda _record: False
        self.card_asked = asyncio.Event()
        self._news = asyncio.Event()

    def emit(self, event: AnyEvent) -> None:
        self.events.append(event)
        self.said.append(event)
        self._news.set()

    def record(self, record: AnyRecord) -> None:
        if self.full_disk(record):
            raise OSError(28, "No space left on device")
        self.records.append(record)
        self.said.append(record)
        self._news.set()

    async def recorded(self) -> list[AnyRecord]:
        return list(self.records)

    async def sync(self) -> None:
        """Nothing is kept on a disk."""

    async def result(self, result_id: str) -> str | None:
        found = (one for one in self.results() if one.result_id == result_id)
        return next((one.full or one.output for one in found), None)

    async def keep_image(self, mime: str, content: bytes) -> Image:
        if not self.has_room_for_images:
            raise OSError(28, "No space left on device")
        self.image_came.set()
        await self.stores_images.wait()
        image = Image(mime, f"image{len(self.images) + 1}")
        self.images[image.name] = content
        return image

    async def image(self, name: str) -> bytes | None:
        return self.images.get(name)

    async def model_list(self, account: Account) -> bytes | None:
        return self.lists.get(account.base_url)

    async def keep_model_list(self, account: Account, answer: bytes) -> None:
        self.lists[account.base_url] = answer

    async def server_facts(self, server: str, model: str) -> list[str]:
        return self.facts.get((server, model), [])

    async def remember(self, server: str, model: str, facts: list[str]) -> None:
        self.facts[server, model] = [*self.facts.get((server, model), []), *facts]

    async def ask(self, card: CardRequest) -> Decision:
        self.cards.append(card)
        self.card_asked.set()
        if self.decisions:
            return self.decisions.pop(0)
        waiting: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        return await waiting

    async def put_questions(self, asked: QuestionRequest) -> QuestionOutcome:
        return QuestionOutcome(outcome="nobody")

    async def submit_plan(self, plan: PlanRequest) -> PlanOutcome:
        return PlanOutcome(outcome="nobody")

    async def show(self, file: ShowRequest) -> ShowOutcome:
        return ShowOutcome(outcome="nobody")

    def command_mode(self, mode: Mode) -> None:
        self.command_modes.append(mode)
        if self._engine is not None:
            self._engine.set_mode(mode)

    def wish(self, key: SettingKey, value: str) -> None:
        self.wishes.append((key, value))

    async def newer_account(self, refused: Account | None) -> Account | None:
        return self.newer

    # ── for tests ───────────────────────────────────────────────────────────────────────────────

    async def until(self, kind: type[T], number: int = 1) -> T:
        """The `number`-th event or record of a type, once it is there."""
        while len(found := [one for one in self.said if isinstance(one, kind)]) < number:
            self._news.clear()
            await self._news.wait()
        return found[number - 1]

    @property
    def last_engine(self) -> NativeEngine:
        """The engine made last."""
        assert self._engine is not None
        return self._engine

    def results(self) -> list[ToolResult]:
        return [one for one in self.records if isinstance(one, ToolResult)]

    def ends(self) -> list[ToolEnd]:
        return [one for one in self.events if isinstance(one, ToolEnd)]

    def engine(self, mode: Mode = "auto", records: list[AnyRecord] | None = None) -> NativeEngine:
        """A session's engine, with what an earlier life recorded."""
        self._engine = NativeEngine(
            self, records or [], mode=mode, model="scripted", effort="default", epoch=1
        )
        return self._engine

    async def turn(
        self,
        engine: NativeEngine,
        turn_id: str = "t1",
        text: str = "go",
        attachments: Sequence[Attachment] = (),
        *,
        local: bool = True,
    ) -> TurnOutcome:
        """Run a turn as a worker does: its start is recorded first."""
        files = list(attachments)
        self.records += [
            TurnAccepted(turn_id=turn_id, text=text, attachments=files, local=local),
            TurnStarted(turn_id=turn_id),
        ]
        return await engine.run_turn(
            TurnInput(turn_id=turn_id, text=text, attachments=files, local=local)
        )
