"""What the native engine costs: a streamed token over httpx alone, and opening a long session."""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.measure import Figure, median
from lembasd.device.paths import Paths
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
)
from lembasd.engine.native.core.context import Conversation
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol import ids
from lembasd.protocol.control import Account, Mode, SettingKey, Settings
from lembasd.protocol.events import AnyEvent
from lembasd.protocol.mcp import McpServer
from lembasd.store.journal import Journal
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Created,
    Image,
    Opened,
    SystemPrompt,
    ToolResult,
    ToolStarted,
    TurnAccepted,
    TurnEnded,
    TurnStarted,
)
from lembasd.worker import opening

TOKENS: Final = 20_000
REPEATS: Final = 5
#: messages of the long session, and the length of each result in it
MESSAGES: Final = 2000
RESULT_CHARS: Final = 2000


class NullHost:
    """A host that keeps nothing."""

    def __init__(self, root: Path, base_url: str) -> None:
        self.session_id = "ses_" + "0" * 26
        self.root = root
        self.settings = Settings(account=Account(base_url=base_url, token="t"))  # noqa: S106
        self.protected: list[Path] = []
        self.session_dir = root.parent / f"{root.name}-session"
        self.widest_mode: Mode = "auto"
        self.client_servers: list[McpServer] = []
        self.scope: str | None = None

    def emit(self, event: AnyEvent) -> None: ...

    def record(self, record: AnyRecord) -> None: ...

    async def sync(self) -> None: ...

    async def result(self, result_id: str) -> str | None:
        return None

    async def keep_image(self, mime: str, content: bytes) -> Image:
        return Image(mime, "")

    async def image(self, name: str) -> bytes | None:
        return None

    async def model_list(self, account: Account) -> bytes | None:
        return None

    async def keep_model_list(self, account: Account, answer: bytes) -> None: ...

    async def server_facts(self, server: str, model: str) -> list[str]:
        return []

    async def remember(self, server: str, model: str, facts: list[str]) -> None: ...

    async def ask(self, card: CardRequest) -> Decision:
        return Decision(outcome="deny")

    async def put_questions(self, asked: QuestionRequest) -> QuestionOutcome:
        return QuestionOutcome(outcome="nobody")

    async def submit_plan(self, plan: PlanRequest) -> PlanOutcome:
        return PlanOutcome(outcome="nobody")

    async def show(self, file: ShowRequest) -> ShowOutcome:
        return ShowOutcome(outcome="nobody")

    attachments_dir = commands_dir = Path("/nowhere")

    async def recorded(self) -> list[AnyRecord]:
        return []

    def command_mode(self, mode: Mode) -> None: ...

    def wish(self, key: SettingKey, value: str) -> None: ...

    async def newer_account(self, refused: Account | None) -> Account | None:
        return None


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _alone(url: str) -> float:
    begun = _cpu_s()
    target = f"{url}/v1/chat/completions"
    async with (
        httpx.AsyncClient(trust_env=False) as http,
        http.stream("POST", target, content=b"{}") as answer,
    ):
        async for _ in answer.aiter_bytes():
            pass
    return _cpu_s() - begun


async def _engine(url: str, root: Path) -> float:
    engine = NativeEngine(
        NullHost(root, url), [], mode="plan", model="m", effort="default", epoch=1
    )
    begun = _cpu_s()
    outcome = await engine.run_turn(TurnInput(turn_id="t", text="go"))
    spent = _cpu_s() - begun
    assert outcome.stop_reason == "end_turn", outcome
    await engine.aclose()
    return spent


async def _tokens() -> Figure:
    server = subprocess.Popen(  # noqa: ASYNC220 - before anything is measured
        [sys.executable, "-m", "benchmarks.streamer", str(TOKENS)], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    port = int((await asyncio.to_thread(server.stdout.readline)).decode())
    url = f"http://127.0.0.1:{port}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            over = [
                (await _engine(url, Path(folder)) - await _alone(url)) / TOKENS * 1e6
                for _ in range(REPEATS + 1)
            ]
    finally:
        server.kill()
        server.stdout.close()
        await asyncio.to_thread(server.wait)
    basis = f"{min(over[1:]):.1f} to {max(over[1:]):.1f}; {TOKENS} tokens, {REPEATS} pairs"
    return Figure(
        "engine CPU a token over httpx", median(over[1:]), "µs", 50, 20, higher=False, basis=basis
    )


def _records() -> list[AnyRecord]:
    said: list[AnyRecord] = [SystemPrompt(text="You are an agent.")]
    for turn in range(MESSAGES // 4):
        name, call_id = f"t{turn}", f"call_{turn:016x}"
        call = Call(
            id=call_id,
            server_id=f"{turn:09d}",
            name="read",
            arguments='{"path":"a"}',
            args={"path": "a"},
        )
        said += [
            TurnAccepted(turn_id=name, text="look at it"),
            TurnStarted(turn_id=name),
            Assistant(turn_id=name, message_id="m", model="m", reasoning="so " * 50, calls=[call]),
            ToolStarted(call_id=call_id),
            ToolResult(call_id=call_id, result_id=f"#{turn:04x}", output="x" * RESULT_CHARS),
            Assistant(turn_id=name, message_id="n", model="m", text="It is so. " * 20),
            TurnEnded(turn_id=name, stop_reason="end_turn"),
        ]
    return said


def _open() -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        paths = Paths(config=base / "c", state=base / "s", run=base / "r")
        paths.make()
        session = ids.session_id(bytes(ids.SESSION_RANDOM_BYTES))
        journal = Journal.create(paths, session)
        journal.append(Created(session_id=session, root=folder, mode="auto", model="m"))
        journal.append(Opened(epoch=1, build="0"))
        for record in _records():
            journal.append(record)
        journal.close()
        took: list[float] = []
        messages: list[dict[str, Any]] = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            store = opening.take_up(paths, session)
            messages = Conversation(store.records).messages()
            took.append((time.perf_counter() - begun) * 1e3)
            store.journal.close()
        assert len(messages) > MESSAGES
    basis = f"{len(messages)} messages, from journal to request; {REPEATS} times"
    return Figure("long session opened", median(took), "ms", 300, 150, higher=False, basis=basis)


async def measure() -> list[Figure]:
    """A token's cost and a long session's opening."""
    return [await _tokens(), _open()]
