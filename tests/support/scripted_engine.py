"""An engine that does what a test says, step by step."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

import msgspec

from lembasd.engine.api import (
    CardRequest,
    Decision,
    Host,
    ListKeeper,
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
    TurnInput,
    TurnOutcome,
)
from lembasd.protocol.context import Context
from lembasd.protocol.control import Account, Mode
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.protocol.events import Text
from lembasd.protocol.interact import Option, Question
from lembasd.protocol.lembas import AvailableCommand
from lembasd.store.records import AnyRecord, Assistant, TurnError

Script = Callable[["ScriptedEngine", TurnInput], Awaitable[TurnOutcome]]
ENDED = TurnOutcome(stop_reason="end_turn")


async def answer(engine: "ScriptedEngine", turn: TurnInput) -> TurnOutcome:
    """Say the prompt back, and record it as the model's message."""
    engine.host.emit(Text(text=f"you said {turn.text}", messageId="m1"))
    engine.host.record(
        Assistant(turn_id=turn.turn_id, message_id="m1", model="test", text=f"you said {turn.text}")
    )
    return ENDED


async def wait(engine: "ScriptedEngine", turn: TurnInput) -> TurnOutcome:
    """Run until the test lets the turn end, or it is cancelled."""
    release = asyncio.ensure_future(engine.release.wait())
    cancelled = asyncio.ensure_future(engine.cancelled.wait())
    try:
        await asyncio.wait({release, cancelled}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        release.cancel()
        cancelled.cancel()
    return TurnOutcome(stop_reason="cancelled") if engine.cancelled.is_set() else ENDED


async def ask(engine: "ScriptedEngine", turn: TurnInput) -> TurnOutcome:
    """Ask for a command's permission, and say what was decided."""
    decision = await engine.host.ask(CARD)
    engine.decisions.append(decision)
    stop = "cancelled" if decision.outcome == "cancelled" else "end_turn"
    return TurnOutcome(stop_reason=stop)  # type: ignore[arg-type]


async def interact(engine: "ScriptedEngine", turn: TurnInput) -> TurnOutcome:
    """Do what the prompt names (question, plan, show), and say what came of it as the model's message."""
    outcome: QuestionOutcome | PlanOutcome | ShowOutcome
    if turn.text == "question":
        outcome = await engine.host.put_questions(QUESTION)
    elif turn.text == "plan":
        outcome = await engine.host.submit_plan(PLAN)
    else:
        outcome = await engine.host.show(SHOW)
    engine.outcomes.append(outcome)
    said = msgspec.json.encode(outcome).decode()
    engine.host.emit(Text(text=said, messageId="m1"))
    stop = "cancelled" if outcome.outcome == "cancelled" else "end_turn"
    return TurnOutcome(stop_reason=stop)  # type: ignore[arg-type]


QUESTION = QuestionRequest(
    tool_call_id="call_q",
    questions=[
        Question(
            "DB", "Which database?", False, [Option("Postgres"), Option("SQLite", "a file", True)]
        ),
        Question("Tests", "Which tests?", True, [Option("unit"), Option("u" * 300)]),
    ],
    why="both would do",
)
PLAN = PlanRequest(
    tool_call_id="call_p", path=".agent/plans/db.md", text="# Move", plan={"version": 1}
)
SHOW = ShowRequest(
    tool_call_id="call_s", path="a.py", kind="code", text="a = 1\n", language="python", line=1
)
CARD = CardRequest(
    tool_call_id="call_1",
    name="bash",
    title="ls",
    kind="execute",
    args={"command": "ls"},
    reason="commands are asked for in this mode",
    always="ls",
)


class Models:
    """A worker's models (worker.ports.ModelChooser): what it is asked for, unless a test names them."""

    def __init__(self) -> None:
        #: effort levels by model; None: any model and any effort
        self.served: dict[str, list[str]] | None = None
        #: cleared, nobody is answered
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(
        self, keeper: ListKeeper, account: Account, model: str, effort: str
    ) -> tuple[str, str]:
        await self.answers.wait()
        if self.served is None:
            return model, effort
        if model not in self.served:
            raise RequestRefused(INVALID_PARAMS, f"no {model} here", {"reason": "model"})
        levels = self.served[model]
        return model, effort if effort in levels else levels[0]


class Workbench:
    """Makes the engines of a worker and lets the test see the last one."""

    def __init__(self, script: Script = answer) -> None:
        self.script = script
        self.engines: list[ScriptedEngine] = []

    @property
    def engine(self) -> "ScriptedEngine":
        return self.engines[-1]

    def __call__(
        self,
        host: Host,
        records: list[AnyRecord],
        *,
        mode: Mode,
        model: str,
        effort: str,
        epoch: int,
    ) -> "ScriptedEngine":
        engine = ScriptedEngine(host, records, self.script, mode)
        self.engines.append(engine)
        return engine


class ScriptedEngine:
    """One session's engine (engine.api.Engine)."""

    def __init__(self, host: Host, records: list[AnyRecord], script: Script, mode: Mode) -> None:
        self.host = host
        self.records = records
        self.modes: list[Mode] = [mode]
        self.efforts: list[str] = []
        self.models: list[str] = []
        self.contexts: list[Context] = []
        self.rewound: list[list[AnyRecord]] = []
        self.turns: list[TurnInput] = []
        self.decisions: list[Decision] = []
        self.outcomes: list[QuestionOutcome | PlanOutcome | ShowOutcome] = []
        self.release = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = False
        self.steered: list[tuple[str, str]] = []
        self.available = [AvailableCommand("compact", "Sum up")]
        self._script = script

    def then(self, script: Script) -> Self:
        """Run the turns to come by another script."""
        self._script = script
        return self

    async def run_turn(self, turn: TurnInput) -> TurnOutcome:
        self.cancelled.clear()
        self.turns.append(turn)
        return await self._script(self, turn)

    async def compact(self) -> str | TurnError:
        """Sum up when the test says so."""
        if self.cancelled.is_set():
            return TurnError(-32602, "cancelled")
        await self.release.wait()
        return "all of it"

    def steer(self, text: str, message_id: str, *, local: bool = False) -> int | TurnError:
        self.steered.append((text, message_id))
        return len(self.steered)

    async def commands(self) -> list[AvailableCommand]:
        return self.available

    def cancel(self) -> None:
        self.cancelled.set()

    def set_mode(self, mode: Mode) -> None:
        self.modes.append(mode)

    def set_model(self, model: str) -> None:
        self.models.append(model)

    def set_context(self, context: Context) -> None:
        self.contexts.append(context)

    def rewind(self, records: list[AnyRecord]) -> None:
        self.rewound.append(records)

    def set_effort(self, effort: str) -> None:
        self.efforts.append(effort)

    async def aclose(self) -> None:
        self.closed = True
