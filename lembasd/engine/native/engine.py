"""The native engine: performs what the turn's machine decides, with the model, the tools and the host."""

import asyncio
import platform
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from lembasd.engine.api import Host, TurnInput, TurnOutcome
from lembasd.engine.native import undoing
from lembasd.engine.native.arguments import problem
from lembasd.engine.native.asking import Asking
from lembasd.engine.native.calls import Calls, Denied, Unfit
from lembasd.engine.native.core import client_context, commands, instructions, place
from lembasd.engine.native.core import turn as machine
from lembasd.engine.native.core.context import Conversation, capped
from lembasd.engine.native.core.instructions import Instruction
from lembasd.engine.native.core.last_prompt import last_prompt
from lembasd.engine.native.core.repeats import Repeats, key_of
from lembasd.engine.native.core.reply import Reply
from lembasd.engine.native.model_client import ModelFailed
from lembasd.engine.native.offered import Offered
from lembasd.engine.native.prompting import Asked, NothingToDo, Prompting
from lembasd.engine.native.tools import instruction_files
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.harness.loader import COMMANDS, LOOP, NAMES, PROJECT, PROMPTS, SYSTEM_PROMPT, TOOLS
from lembasd.harness.tool import Tool, converted, fill
from lembasd.protocol import events
from lembasd.protocol.acp import CommandResult, Undone, lowered
from lembasd.protocol.context import Context
from lembasd.protocol.control import Mode
from lembasd.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from lembasd.protocol.lembas import AvailableCommand
from lembasd.store.apart import run_apart
from lembasd.store.records import (
    AnyRecord,
    Call,
    ContextSet,
    Note,
    Prompted,
    Rewound,
    SessionNote,
    SettingSet,
    SteerAsked,
    SystemPrompt,
    ToolResult,
    ToolStarted,
    TurnAccepted,
    TurnError,
    TurnStarted,
)

#: a project whose instruction files are not read by then is on a disk that hangs
INSTRUCTIONS_S: Final = 5.0
#: whether they have changed is asked before each turn, and must not keep it for long
CHANGED_S: Final = 1.0
#: messages that may wait for a turn's next step; one more is refused
MAX_STEERS: Final = 100
T = TypeVar("T")
_NOT_KEPT: Final = "the message could not be stored, so it was not taken"
_TOO_MANY_STEERS: Final = "too many messages wait for the next step; send it when some are taken in"


class _Steer(Struct, frozen=True):
    """What was said for the running turn; `message_id` and `local`: of Engine.steer."""

    text: str
    message_id: str
    local: bool


class NativeEngine:
    """One session's engine (engine.api.Engine). `epoch` is the worker's life, for the tools' marker."""

    def __init__(
        self,
        host: Host,
        records: list[AnyRecord],
        *,
        mode: Mode,
        model: str,
        effort: str,
        epoch: int,
    ) -> None:
        self._host = host
        self._mode = mode
        #: that of the command that runs
        self._lent_mode: Mode | None = None
        self._conversation = Conversation(records)
        self._calls = Calls(
            host, epoch, self._conversation.shown.table(), lambda: self._asking.efforts
        )
        self._prompting = Prompting(
            host, self._calls.files, self._calls.searches, self._calls.ground
        )
        self._asking = Asking(
            host,
            self._conversation,
            Offered(host, self._conversation, self._calls.servers),
            model=model,
            effort=effort,
            record=self._record,
        )
        #: the summary under way, between turns
        self._summing: asyncio.Future[str] | None = None
        #: what the prompt names and brings, and what the account has, on its way
        self._preparing: asyncio.Future[Any] | None = None
        self._turn: machine.TurnMachine | None = None
        self._repeats = Repeats(LOOP.repeats.refused)
        self._turn_id = ""
        #: what was said for the running turn and waits for its next step
        self._steers: list[_Steer] = []
        #: the summary of a command was cancelled
        self._was_cancelled = False
        self._planned: dict[str, Call] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._news: asyncio.Queue[machine.Input] = asyncio.Queue()

    # ── engine.api.Engine ───────────────────────────────────────────────────────────────────────

    async def run_turn(self, turn: TurnInput) -> TurnOutcome:
        self._turn_id = turn.turn_id
        self._turn = machine.TurnMachine(_limits())
        self._repeats = Repeats(LOOP.repeats.refused)
        self._steers, self._was_cancelled = [], False
        # from here on a cancel is heard, whatever is awaited first
        self._news = asyncio.Queue()
        try:
            asked = await self._prompting.asked(turn.text)
            command = CommandResult(asked.command.name) if asked.command is not None else None
            try:
                if asked.is_action:
                    outcome = await self._act(turn, asked)
                else:
                    await self._prepare(turn, asked)
                    outcome = replace(await self._talk(self._turn), command=command)
            except NothingToDo as nothing:
                self._take_as_action(turn)
                said = CommandResult(asked.builtin, message=str(nothing))
                outcome = TurnOutcome(stop_reason="end_turn", command=said)
            return replace(outcome, unsent=[one.text for one in self._steers])
        finally:
            self._turn = None
            await self._end_work()
            self._lend_mode(None, "")
            self._asking.give_back()

    async def _talk(self, turn: machine.TurnMachine) -> TurnOutcome:
        """Ask the model, and do what it wants, to the turn's end."""
        self._news.put_nowait(machine.Begin())
        while True:
            for effect in turn.handle(await self._news.get()):
                if isinstance(effect, machine.Finish):
                    return TurnOutcome(stop_reason=effect.stop_reason, error=effect.error)
                if isinstance(effect, machine.TakeSteers):
                    await self._take_steers()
                else:
                    self._perform(effect)
            self._raise_faults()

    async def commands(self) -> list[AvailableCommand]:
        return commands.offered(await self._prompting.commands())

    async def compact(self) -> str | TurnError:
        if self._conversation.is_empty:
            return TurnError(INVALID_PARAMS, "there is nothing to sum up yet; prompt first")
        self._answer_open_calls()
        work = asyncio.ensure_future(self._asking.compact())
        self._summing = work
        try:
            return await work
        except ModelFailed as failed:
            return failed.turn_error()
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            self._was_cancelled = True
            return TurnError(INVALID_PARAMS, "the summary was cancelled")
        finally:
            self._summing = None
            work.cancel()

    def steer(self, text: str, message_id: str, *, local: bool = False) -> int | TurnError:
        if self._turn is None or self._turn.finished:
            return TurnError(INVALID_PARAMS, "the turn has just ended; send it as a prompt")
        if len(self._steers) >= MAX_STEERS:
            return TurnError(INVALID_PARAMS, _TOO_MANY_STEERS)
        try:
            self._record(SteerAsked(text=text, message_id=message_id))
        except OSError as error:
            return TurnError(INTERNAL_ERROR, f"{_NOT_KEPT} ({error.strerror}); free some space")
        self._steers.append(_Steer(text, message_id, local))
        self._host.emit(events.Inbox(count=len(self._steers)))
        self._news.put_nowait(machine.SteerCame())
        return len(self._steers)

    async def _take_steers(self) -> None:
        """What was said meanwhile goes to the model with the next request, and what it names."""
        taken = list(self._steers)
        texts = [one.text for one in taken]
        ids = [one.message_id for one in taken if one.message_id]
        # read together: where one of them is bound by the limits, all are
        local = all(one.local for one in taken)
        steered = await self._unless_cancelled(self._prompting.steered(texts, ids, local=local))
        if steered is None:
            return  # the turn ends, and gives them back
        self._record(steered)
        del self._steers[: len(taken)]
        self._host.emit(events.Steered(texts=texts, ids=ids or UNSET))
        self._host.emit(events.Inbox(count=len(self._steers)))

    def cancel(self) -> None:
        if self._summing is not None:
            self._summing.cancel()
        if self._preparing is not None:
            self._preparing.cancel()
        if self._turn is not None:
            self._news.put_nowait(machine.CancelCame())

    def set_mode(self, mode: Mode) -> None:
        if mode != self._mode and self._conversation.system is not None:
            self._note_mode(mode)
        self._mode, self._lent_mode = mode, None

    def _note_mode(self, mode: Mode, turn_id: str = "") -> None:
        """Tell the model with the next prompt, or with that of this turn: what was sent before stands."""
        with suppress(OSError):  # a full disk: the calls are judged by it all the same
            text = fill(LOOP.notes["mode"], {"mode": mode, "text": PROMPTS[f"modes/{mode}.md"]})
            self._record(SessionNote(text=text, turn_id=turn_id))

    def _lend_mode(self, mode: Mode | None, turn_id: str) -> None:
        """Judge the calls of this turn by another mode than the session's; None: by that again."""
        before = self._lent_mode or self._mode
        self._lent_mode = mode if mode != self._mode else None
        now = self._lent_mode or self._mode
        if now != before:
            self._note_mode(now, turn_id)

    def set_model(self, model: str) -> None:
        # the worker has recorded it; the conversation takes it in here
        self._conversation.apply(SettingSet(key="model", value=model))
        self._asking.set_model(model)
        if self._conversation.system is not None:
            with suppress(OSError):  # a full disk: it is asked all the same
                self._record(SessionNote(text=fill(LOOP.notes["model"], {"model": model})))

    def set_context(self, context: Context) -> None:
        self._conversation.apply(ContextSet(context=context))

    def rewind(self, records: list[AnyRecord]) -> None:
        self._conversation.fold(records)
        self._asking.rewound()

    def set_effort(self, effort: str) -> None:
        self._asking.set_effort(effort)

    async def aclose(self) -> None:
        await self._end_work()
        await self._calls.aclose()
        await self._asking.aclose()

    # ── a turn ──────────────────────────────────────────────────────────────────────────────────

    def _answer_open_calls(self) -> None:
        for call_id, text in self._conversation.unanswered():
            # what an earlier life of the worker left open is told once, and then stands
            self._record(
                ToolResult(call_id=call_id, result_id=self._result_id(), output=text, is_error=True)
            )

    async def _prepare(self, turn: TurnInput, asked: Asked) -> None:
        """Have the conversation say what the prompt is made into. Raises NothingToDo."""
        command = asked.command
        if asked.builtin == "plan":
            self._host.command_mode("plan")
        is_new = self._conversation.is_empty
        made = await self._unless_cancelled(self._prompting.made(turn, asked, is_new=is_new))
        if self._conversation.context.personalization is None:
            await self._unless_cancelled(self._asking.look_up_personalization())
        await self._begin(turn)
        if made is not None:
            self._record(made)
        if command is None:
            return
        if command.model or command.effort:
            self._asking.lend(command.model, command.effort)
        if command.mode is not None:
            ceiling = "auto" if turn.local else self._host.settings.remote.max_mode
            # a file of the project may be the model's work: it widens nothing that the person set
            ceiling = ceiling if command.own else lowered(ceiling, self._host.widest_mode)
            self._lend_mode(lowered(command.mode, ceiling), turn.turn_id)

    async def _unless_cancelled(self, preparing: Coroutine[Any, Any, T]) -> T | None:
        """Its result; None when the turn was cancelled meanwhile, which the turn hears of itself."""
        work = asyncio.ensure_future(preparing)
        self._preparing = work
        try:
            return await work
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            return None
        finally:
            self._preparing = None
            work.cancel()

    def _take_as_action(self, turn: TurnInput) -> None:
        """Have the model hear nothing of the turn."""
        self._conversation.apply(TurnAccepted(turn_id=turn.turn_id, text=turn.text))
        self._conversation.apply(TurnStarted(turn_id=turn.turn_id))
        self._record(Prompted(turn_id=turn.turn_id, action=True))

    async def _act(self, turn: TurnInput, asked: Asked) -> TurnOutcome:
        """Do what a command does that sends nothing to the model."""
        self._take_as_action(turn)
        name = asked.builtin
        if name == "plan":
            self._host.command_mode("plan")
            done = CommandResult(name, mode="plan")
        elif name == "undo":
            done = CommandResult(name, undone=await self._undo())
        elif self._conversation.is_empty:
            done = CommandResult(name, message=COMMANDS.texts["nothing_said"])
        else:
            summary = await self.compact()
            if isinstance(summary, TurnError):
                if self._was_cancelled:
                    return TurnOutcome(stop_reason="cancelled", command=CommandResult(name))
                return TurnOutcome(error=summary)
            done = CommandResult(name, summary=summary)
        return TurnOutcome(stop_reason="end_turn", command=done)

    async def _undo(self) -> Undone | None:
        """Take the last prompt back, and what the file tools changed for it; None when there is none."""
        records = await self._host.recorded()
        last = last_prompt(records)
        if last is None:
            return None
        files, root = self._calls.files, self._host.root
        # not given up in its middle; the files come first, so that an undo that was cut off is made again
        restored = await run_apart(lambda: undoing.restore(files, root, last.calls))
        if restored.left:
            left = fill(COMMANDS.texts["undo_left"], {"files": ", ".join(restored.left)})
            self._host.emit(events.Notice(level="warning", text=left))
        rewound = Rewound(turns=[last.turn_id], results=self._conversation.results)
        self._host.record(rewound)
        self.rewind([*records, rewound])
        return Undone(prompt=last.text, files=restored.files)

    async def _begin(self, turn: TurnInput) -> None:
        self._answer_open_calls()
        if self._conversation.system is None:
            self._record(await self._system_prompt())
        else:
            await self._note_instructions(turn.turn_id)
            self._note_pieces(turn.turn_id)
        # the worker has recorded both; the conversation takes them in here
        self._conversation.apply(TurnAccepted(turn_id=turn.turn_id, text=turn.text))
        self._conversation.apply(TurnStarted(turn_id=turn.turn_id))

    async def _system_prompt(self) -> SystemPrompt:
        """Made once for the session, without a clock or an absolute path in it."""
        found = await self._instruction_files(INSTRUCTIONS_S) or []
        variables = {
            **place.environment(PurePosixPath(self._host.root), platform.system()),
            "context": PROMPTS["blocks/context.md"],
            "mode": PROMPTS[f"modes/{self._mode}.md"],
            "instructions": instructions.rendered(found),
        }
        pieces = self._pieces()
        parts = [fill(SYSTEM_PROMPT, variables).rstrip(), *pieces.values()]
        return SystemPrompt(
            text="\n\n".join(parts) + "\n",
            instructions=instructions.digests(found),
            context=client_context.digests(pieces),
        )

    def _pieces(self) -> dict[str, str]:
        """What the client, or the person on this machine, adds to the system prompt."""
        settings = self._host.settings
        account = settings.account
        name = (account.instance_name or account.connection or "") if account is not None else ""
        said = self._conversation
        own = settings.personalization if said.personalization is None else said.personalization
        return client_context.pieces(said.context, own, name)

    def _note_pieces(self, turn_id: str) -> None:
        """Tell of pieces that are not what they were: the system prompt stays."""
        pieces = self._pieces()
        said = client_context.changes(self._conversation.pieces, pieces, LOOP.notes)
        if said:
            now = client_context.digests(pieces)
            self._record(SessionNote(text="\n\n".join(said), turn_id=turn_id, context=now))

    async def _note_instructions(self, turn_id: str) -> None:
        """Tell of instruction files that are not what they were (decisions.md, harness 3)."""
        found = await self._instruction_files(CHANGED_S)
        if found is None:
            return
        before, now = self._conversation.instructions, instructions.digests(found)
        said = instructions.changes(before, now, LOOP.notes)
        if said:
            note = SessionNote(text="\n".join(said), turn_id=turn_id, instructions=now)
            self._record(note)

    async def _instruction_files(self, within_s: float) -> list[Instruction] | None:
        """The project's, None when its disk does not answer: the tools will say so."""
        root = self._host.root
        try:
            async with asyncio.timeout(within_s):
                return await run_apart(lambda: instruction_files.find(root))
        except TimeoutError:
            return None

    def _record(self, record: AnyRecord) -> None:
        self._host.record(record)
        self._conversation.apply(record)

    def _result_id(self) -> str:
        return f"#{self._conversation.results + 1:04x}"

    def _perform(self, effect: machine.Effect) -> None:
        match effect:
            case machine.AskModel(step):
                self._spawn(self._ask(step))
            case machine.Tell(word):
                self._record(Note(text=LOOP.steps.texts[word]))
            case machine.RunCalls(call_ids):
                for call_id in call_ids:
                    self._spawn(self._run(self._planned[call_id]))
            case machine.GiveResult(call_id, text):
                call = self._planned[call_id]
                self._start_event(call)
                self._result(call, Outcome(text, is_error=True), 0)
            case machine.StopWork():
                # a task that is cancelled before its first step would never tell how it ended
                for task in self._work:
                    asyncio.get_running_loop().call_soon(task.cancel)
            case machine.TakeSteers() | machine.Finish():
                pass  # the turn's own business

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._work.discard(task)
        else:
            # a fault of ours, or the journal's disk: it ends the turn where it is awaited
            self._news.put_nowait(machine.CancelCame())

    def _raise_faults(self) -> None:
        for task in list(self._work):
            if task.done() and not task.cancelled():
                self._work.discard(task)
                error = task.exception()
                if error is not None:
                    raise error

    async def _end_work(self) -> None:
        tasks, self._work = self._work, set()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    # ── the model ───────────────────────────────────────────────────────────────────────────────

    async def _ask(self, step: int) -> None:
        self._host.emit(events.Step(n=step, model=self._asking.model))
        try:
            reply = await self._asking.next_reply()
        except asyncio.CancelledError:
            self._asking.keep_partial(self._turn_id)
            self._news.put_nowait(machine.AskCancelled())
            return
        except ModelFailed as failed:
            self._host.emit(
                events.Error(message=str(failed), reason=failed.reason, retryable=failed.retryable)
            )
            self._news.put_nowait(machine.Failed(failed.turn_error()))
            return
        self._take(reply)

    def _take(self, reply: Reply) -> None:
        calls = [_known(call) for call in reply.calls]
        self._asking.keep(self._turn_id, reply, calls)
        self._planned = {call.id: call for call in calls}
        others = self._calls.servers.tools
        plans = [
            machine.CallPlan(
                call_id=call.id,
                parallel=_is_parallel(call, others),
                problem=problem(call, others),
            )
            for call in calls
        ]
        usage = reply.usage
        self._news.put_nowait(
            machine.Replied(
                plans,
                truncated=reply.is_cut,
                empty=reply.is_empty,
                output_tokens=usage.output,
                input_tokens=max(0, usage.input - usage.cached),
            )
        )

    # ── the calls ───────────────────────────────────────────────────────────────────────────────

    def _start_event(self, call: Call) -> None:
        tool = TOOLS.get(call.name)
        args = call.args or {}
        purpose = args.get("purpose")
        event = events.ToolStart(
            toolCallId=call.id,
            name=call.name,
            title=self._calls.title(call),
            block=tool.block if tool is not None else "tool",
            args=args,
            purpose=purpose if isinstance(purpose, str) and purpose else UNSET,
        )
        self._host.emit(event)

    async def _run(self, call: Call) -> None:
        self._start_event(call)
        begun = time.monotonic()
        is_started = False

        def started() -> None:
            nonlocal is_started
            is_started = True

        try:
            judged = await self._calls.judge(call, self._lent_mode or self._mode)
            if isinstance(judged, Denied):
                self._denied(call, judged)
                self._news.put_nowait(machine.CallEnded(call.id))
                return
            if isinstance(judged, Unfit):
                outcome = Outcome(judged.reason, is_error=True)
            else:
                outcome = await self._made(call, judged, started)
        except asyncio.CancelledError:
            text = (
                "Cancelled by the person while it ran; what it had done stays."
                if is_started
                else machine.CANCELLED_TEXT
            )
            outcome = Outcome(text, is_error=True)
        self._result(call, outcome, int((time.monotonic() - begun) * 1000))
        self._news.put_nowait(machine.CallEnded(call.id))

    async def _made(self, call: Call, args: dict[str, Any], started: Callable[[], None]) -> Outcome:
        """Make a call that may run, unless it was made with the same result too often in this turn."""
        texts, key = LOOP.repeats.texts, key_of(call.name, args)
        if self._repeats.is_refused(key):
            made = str(LOOP.repeats.refused - 1)
            return Outcome(fill(texts["refused"], {"count": made}), is_error=True)
        self._record(ToolStarted(call_id=call.id))
        outcome = await self._calls.run(call, args, started)
        count = self._repeats.ended(key, outcome.output)
        if count >= LOOP.repeats.told:
            note = fill(texts["told"], {"count": str(count)})
            return replace(outcome, note=note)
        return outcome

    def _denied(self, call: Call, denied: Denied) -> None:
        self._record(
            ToolResult(
                call_id=call.id,
                result_id=self._result_id(),
                output=denied.reason,
                is_error=True,
                denied_by=denied.by,
            )
        )
        self._host.emit(
            events.ToolDenied(
                toolCallId=call.id, name=call.name, reason=denied.reason, by=denied.by
            )
        )

    def _result(self, call: Call, outcome: Outcome, duration_ms: int) -> None:
        result_id = self._result_id()
        output = capped(outcome.output, LOOP.context, result_id)
        is_whole = output == outcome.output
        stub = None
        if is_whole and not outcome.is_error:
            shown = self._conversation.shown
            stub = shown.stub(call.name, call.args or {}, output, outcome.seen)
        if stub is not None:
            outcome, output = replace(outcome, seen=None), stub
        result = ToolResult(
            call_id=call.id,
            result_id=result_id,
            output=output,
            is_error=outcome.is_error,
            full=None if is_whole else outcome.output,
            note=outcome.note,
            seen=outcome.seen if is_whole else None,
            images=outcome.images,
            diff=outcome.diff,
        )
        self._record(result)
        self._host.emit(
            events.ToolEnd(
                toolCallId=call.id,
                resultId=result_id,
                isError=outcome.is_error,
                output=result.told,
                duration_ms=duration_ms,
                diff=UNSET if outcome.diff is None else outcome.diff,
            )
        )


def _limits() -> machine.Limits:
    """What one turn may do."""
    steps, budget = LOOP.steps, LOOP.budgets[PROJECT]
    return machine.Limits(
        steps.backstop,
        empty=steps.empty,
        cut=steps.cut,
        calls=budget.calls,
        output_tokens=budget.output_tokens,
        input_tokens=budget.input_tokens,
    )


def _known(call: Call) -> Call:
    """The call under its tool's present name, with its arguments' present names."""
    tool = TOOLS.get(NAMES.get(call.name, ""))
    if tool is None:
        return call
    args = None if call.args is None else converted(tool, call.args)
    if tool.name == call.name and args == call.args:
        return call
    text = call.arguments if args is None else msgspec.json.encode(args).decode()
    return replace(call, name=tool.name, args=args, arguments=text)


def _is_parallel(call: Call, others: Mapping[str, Tool]) -> bool:
    """Whether it may run beside others: it only reads, and does not want to be alone."""
    tool = TOOLS.get(call.name) or others.get(call.name)
    return tool is not None and tool.risk == "read" and not tool.exclusive
