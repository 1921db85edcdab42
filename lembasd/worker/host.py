"""What an engine may ask of its worker (`engine.api.Host`)."""

import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.device.runtime import LAUNCHD_LABEL
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
from lembasd.protocol.control import Account, Mode, SettingKey, Settings
from lembasd.protocol.events import AnyEvent, Step, Text
from lembasd.protocol.mcp import McpServer
from lembasd.store import attachments, images, model_lists, servers
from lembasd.store.apart import run_apart
from lembasd.store.journal import Journal, NoSession, find_result, read
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Compacted,
    Image,
    ToolResult,
    ToolStarted,
)
from lembasd.worker.core.used_names import UsedNames


class Side(Protocol):
    """What the host uses of its worker."""

    @property
    def settings(self) -> Settings: ...

    @property
    def given(self) -> bool: ...

    def emit(self, event: AnyEvent) -> None: ...

    def message_recorded(self) -> None:
        """What the model wrote last is in the journal."""

    async def ask(self, card: CardRequest) -> Decision: ...

    async def put_questions(self, asked: QuestionRequest) -> QuestionOutcome: ...

    async def submit_plan(self, plan: PlanRequest) -> PlanOutcome: ...

    async def show(self, file: ShowRequest) -> ShowOutcome: ...

    @property
    def widest_mode(self) -> Mode: ...

    def command_mode(self, mode: Mode) -> None: ...

    def wish(self, key: SettingKey, value: str) -> None: ...

    async def newer_account(self, refused: Account | None) -> Account | None: ...


class KeptLists:
    """`engine.api.ListKeeper` in the state directory."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def model_list(self, account: Account) -> bytes | None:
        return await run_apart(lambda: model_lists.kept(self._paths, account, time.time()))

    async def keep_model_list(self, account: Account, answer: bytes) -> None:
        # without it the next session asks again: that is all that is lost
        with suppress(OSError):
            await run_apart(lambda: model_lists.keep(self._paths, account, answer, time.time()))


class SessionHost(KeptLists):
    """One session's host, as `engine.api.Host` says."""

    def __init__(
        self,
        session_id: str,
        root: Path,
        paths: Paths,
        journal: Journal,
        side: Side,
        client_servers: list[McpServer],
    ) -> None:
        super().__init__(paths)
        self._session_id = session_id
        self._root = root
        self._journal = journal
        self._side = side
        self.client_servers = client_servers
        #: files that the running turn uses
        self.used = UsedNames(str(root))
        #: names of the calls of the last message, for the milestone of their start
        self._names: dict[str, str] = {}
        #: the model has said something in this life, for the milestone
        self._spoken = False

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def root(self) -> Path:
        return self._root

    @property
    def settings(self) -> Settings:
        return self._side.settings

    @cached_property
    def protected(self) -> list[Path]:
        """Found out at the first call that needs it, beside the loop: a home may be on a disk that hangs."""
        return protected_paths(self._paths)

    @property
    def session_dir(self) -> Path:
        return self._paths.session(self._session_id)

    @property
    def attachments_dir(self) -> Path:
        return attachments.directory(self._paths, self._session_id)

    @property
    def commands_dir(self) -> Path:
        return self._paths.commands

    async def recorded(self) -> list[AnyRecord]:
        return await run_apart(lambda: read(self._paths, self._session_id).records)

    @property
    def scope(self) -> str | None:
        return self._session_id if self._side.given else None

    def emit(self, event: AnyEvent) -> None:
        self._side.emit(event)
        if isinstance(event, Step) and event.n == 1:
            self._spoken = False
        elif isinstance(event, Text) and not self._spoken:
            self._spoken = True
            reached("worker.first_token", session_id=self._session_id)

    def record(self, record: AnyRecord) -> None:
        self._journal.append(record)
        self.used.recorded(record)
        match record:
            case Assistant(calls=calls):
                self._names = {call.id: call.name for call in calls}
                self._side.message_recorded()
            case ToolStarted(call_id=call_id):
                reached(
                    "worker.tool_started",
                    session_id=self._session_id,
                    call_id=call_id,
                    tool=self._names.get(call_id, ""),
                )
            case ToolResult(call_id=call_id):
                reached("worker.tool_ended", session_id=self._session_id, call_id=call_id)
            case Compacted():
                reached("worker.compacted", session_id=self._session_id)
            case _:
                pass

    async def sync(self) -> None:
        await self._journal.sync()

    async def result(self, result_id: str) -> str | None:
        try:
            found = await run_apart(lambda: find_result(self._paths, self._session_id, result_id))
        except NoSession:
            return None
        return None if found is None else found.full or found.output

    async def keep_image(self, mime: str, content: bytes) -> Image:
        return await run_apart(lambda: images.keep(self._paths, self._session_id, mime, content))

    async def image(self, name: str) -> bytes | None:
        return await run_apart(lambda: images.load(self._paths, self._session_id, name))

    async def server_facts(self, server: str, model: str) -> list[str]:
        return await run_apart(lambda: servers.known(self._paths, server, model, time.time()))

    async def remember(self, server: str, model: str, facts: list[str]) -> None:
        # asked again it would be refused again: that is all that is lost
        with suppress(OSError):
            await run_apart(
                lambda: servers.remember(self._paths, server, model, facts, time.time())
            )

    async def ask(self, card: CardRequest) -> Decision:
        return await self._side.ask(card)

    async def put_questions(self, asked: QuestionRequest) -> QuestionOutcome:
        return await self._side.put_questions(asked)

    async def submit_plan(self, plan: PlanRequest) -> PlanOutcome:
        return await self._side.submit_plan(plan)

    async def show(self, file: ShowRequest) -> ShowOutcome:
        return await self._side.show(file)

    @property
    def widest_mode(self) -> Mode:
        return self._side.widest_mode

    def command_mode(self, mode: Mode) -> None:
        self._side.command_mode(mode)

    def wish(self, key: SettingKey, value: str) -> None:
        self._side.wish(key, value)

    async def newer_account(self, refused: Account | None) -> Account | None:
        return await self._side.newer_account(refused)


def protected_paths(paths: Paths) -> list[Path]:
    """What no tool may touch: our config, login, journals and sockets, and the units that start the service."""
    home = Path.home()
    ours = [paths.config, paths.state, paths.run]
    units = [
        home / ".config" / "systemd" / "user",
        home / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist",
    ]
    return [path.resolve() for path in (*ours, *units)]
