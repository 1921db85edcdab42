"""The native engine: performs what the turn's machine decides, with the model, the tools and the host."""

import asyncio
import platform
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from lembasd.engine.api import Host, TurnInput, TurnOutcome
from lembasd.engine.native.arguments import problem
from lembasd.engine.native.calls import Calls, Denied, Unfit
from lembasd.engine.native.compactor import Compactor
from lembasd.engine.native.core import instructions, levels, place
from lembasd.engine.native.core import turn as machine
from lembasd.engine.native.core.context import Conversation, capped
from lembasd.engine.native.core.levels import ModelInfo
from lembasd.engine.native.core.repeats import Repeats, key_of
from lembasd.engine.native.core.reply import (
    CallDelta,
    Delta,
    ReasoningDelta,
    Reply,
    ReplyAssembler,
    TextDelta,
)
from lembasd.engine.native.model_client import ModelClient, ModelFailed, TokenRefused, WindowFull
from lembasd.engine.native.tools import instruction_files
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.harness.loader import LOOP, NAMES, SYSTEM_PROMPT, TOOLS, function, is_offered
from lembasd.harness.tool import converted, fill
from lembasd.protocol import events
from lembasd.protocol.control import Account, Mode
from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.store.apart import run_apart
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Learned,
    Note,
    SessionNote,
    SystemPrompt,
    ToolResult,
    ToolStarted,
    TurnAccepted,
    TurnError,
    TurnStarted,
)

#: a project whose instruction files are not read by then is on a disk that hangs
INSTRUCTIONS_S: Final = 5.0
_NO_MODEL: Final = "this session has no model; set `model` in config.yaml and open a new session"
_NO_LOGIN: Final = "this device is not logged in to an instance; run `lembas login`"
#: sent with every request of a session, and the same for all of them: the prefix stays still
_TOOLS: Final = [function(tool) for tool in TOOLS.values() if is_offered(tool)]


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
        self._model = model
        self._effort = effort
        self._conversation = Conversation(records)
        self._calls = Calls(host, epoch, self._conversation.shown.table())
        self._client = ModelClient(
            facts=self._conversation.facts,
            on_delta=self._delta,
            on_wait=self._wait,
            on_retract=self._retract,
            on_fact=self._learnt,
        )
        self._compactor = Compactor(
            self._conversation, ask=self._ask_apart, record=self._record, emit=host.emit
        )
        #: nothing of the reply under way is shown: it is a summary
        self._is_apart = False
        self._looked_up = False
        #: the summary under way, between turns
        self._summing: asyncio.Future[str] | None = None
        self._info: ModelInfo | None = None
        self._turn: machine.TurnMachine | None = None
        self._repeats = Repeats(LOOP.repeats.refused)
        self._turn_id = ""
        self._message_id = ""
        self._planned: dict[str, Call] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._news: asyncio.Queue[machine.Input] = asyncio.Queue()

    # ── engine.api.Engine ───────────────────────────────────────────────────────────────────────

    async def run_turn(self, turn: TurnInput) -> TurnOutcome:
        self._turn_id = turn.turn_id
        steps = LOOP.steps
        self._turn = machine.TurnMachine(
            machine.Limits(steps.backstop, empty=steps.empty, cut=steps.cut)
        )
        self._repeats = Repeats(LOOP.repeats.refused)
        # from here on a cancel is heard, whatever is awaited first
        self._news = asyncio.Queue()
        try:
            await self._begin(turn)
            self._news.put_nowait(machine.Begin())
            while True:
                for effect in self._turn.handle(await self._news.get()):
                    if isinstance(effect, machine.Finish):
                        return TurnOutcome(stop_reason=effect.stop_reason, error=effect.error)
                    self._perform(effect)
                self._raise_faults()
        finally:
            self._turn = None
            await self._end_work()

    async def compact(self) -> str | TurnError:
        if self._conversation.is_empty:
            return TurnError(INVALID_PARAMS, "there is nothing to sum up yet; prompt first")
        self._answer_open_calls()
        work = asyncio.ensure_future(self._sum_up())
        self._summing = work
        try:
            return await work
        except ModelFailed as failed:
            return failed.turn_error()
        except asyncio.CancelledError:
            if not work.cancelled():
                raise
            return TurnError(INVALID_PARAMS, "the summary was cancelled")
        finally:
            self._summing = None
            work.cancel()

    async def _sum_up(self) -> str:
        await self._look_up_model()
        return await self._compactor.compact("")

    def cancel(self) -> None:
        if self._summing is not None:
            self._summing.cancel()
        if self._turn is not None:
            self._news.put_nowait(machine.CancelCame())

    def set_mode(self, mode: Mode) -> None:
        if mode != self._mode and self._conversation.system is not None:
            # told with the next prompt: what was sent before stands
            with suppress(OSError):  # a full disk: the calls are judged by it all the same
                self._record(SessionNote(text=LOOP.notes["mode"].replace("{{mode}}", mode)))
        self._mode = mode

    async def aclose(self) -> None:
        await self._end_work()
        await self._calls.aclose()
        await self._client.aclose()

    # ── a turn ──────────────────────────────────────────────────────────────────────────────────

    def _answer_open_calls(self) -> None:
        for call_id, text in self._conversation.unanswered():
            # what an earlier life of the worker left open is told once, and then stands
            self._record(
                ToolResult(call_id=call_id, result_id=self._result_id(), output=text, is_error=True)
            )

    async def _begin(self, turn: TurnInput) -> None:
        self._answer_open_calls()
        if self._conversation.system is None:
            self._record(SystemPrompt(text=await self._system_prompt()))
        # the worker has recorded both; the conversation takes them in here
        self._conversation.apply(TurnAccepted(turn_id=turn.turn_id, text=turn.text))
        self._conversation.apply(TurnStarted(turn_id=turn.turn_id))

    async def _system_prompt(self) -> str:
        """Made once for the session, without a clock or an absolute path in it."""
        root = self._host.root
        try:
            async with asyncio.timeout(INSTRUCTIONS_S):
                found = await run_apart(lambda: instruction_files.find(root))
        except TimeoutError:
            found = []  # the disk hangs: the tools will say so
        variables = {
            **place.environment(PurePosixPath(root), platform.system()),
            "instructions": instructions.rendered(found),
        }
        return fill(SYSTEM_PROMPT, variables).rstrip() + "\n"

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
            case machine.Finish():
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
        self._message_id = f"msg_{secrets.token_hex(8)}"
        self._host.emit(events.Step(n=step, model=self._model))
        try:
            reply = await self._reply_with_room()
        except asyncio.CancelledError:
            self._keep_partial()
            self._news.put_nowait(machine.AskCancelled())
            return
        except ModelFailed as failed:
            self._host.emit(
                events.Error(message=str(failed), reason=failed.reason, retryable=failed.retryable)
            )
            self._news.put_nowait(machine.Failed(failed.turn_error()))
            return
        self._take(reply)

    async def _reply_with_room(self) -> Reply:
        """A reply, after the conversation was summed up where the model has no room for it."""
        await self._look_up_model()
        if self._compactor.is_due:
            await self._compactor.compact(self._conversation.task)
        try:
            return await self._reply(self._conversation.messages)
        except WindowFull as full:
            self._compactor.learn(full.window or 0)
            await self._compactor.compact(self._conversation.task)
            return await self._reply(self._conversation.messages)

    async def _ask_apart(self, messages: list[dict[str, Any]]) -> Reply:
        self._is_apart = True
        try:
            return await self._reply(lambda: messages)
        finally:
            self._is_apart = False

    async def _look_up_model(self) -> None:
        """Ask once what the server says of the model: its window and its levels."""
        account = self._host.settings.account
        if self._looked_up or account is None or not self._model:
            return
        self._looked_up = True
        self._info = await self._client.about(account, self._model)
        if self._info is not None:
            self._compactor.learn(self._info.context or 0)

    async def _reply(self, messages: Callable[[], list[dict[str, Any]]]) -> Reply:
        if not self._model:
            raise ModelFailed(_NO_MODEL)
        account = self._host.settings.account
        if account is None:
            raise ModelFailed(_NO_LOGIN)
        try:
            return await self._once(account, messages)
        except TokenRefused as refused:
            newer = await self._host.newer_account(account)
            if newer is None:
                raise
            if newer.base_url != account.base_url:
                raise ModelFailed(
                    "this device is logged in to another instance now; send it again"
                ) from refused
            return await self._once(newer, messages)

    async def _once(self, account: Account, messages: Callable[[], list[dict[str, Any]]]) -> Reply:
        used = self._conversation.used_server_ids
        return await self._client.ask(
            account,
            lambda: self._body(messages()),
            lambda thinks: ReplyAssembler(_new_call_id, used, NAMES, thinks=thinks),
        )

    def _body(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The request as a server takes it of which nothing is known."""
        return {
            "model": self._model,
            "messages": messages,
            "tools": _TOOLS,
            "stream": True,
            "stream_options": {"include_usage": True},
            **levels.parameters(self._effort, self._info),
        }

    def _learnt(self, fact: str) -> None:
        self._record(Learned(fact=fact))

    def _delta(self, delta: Delta) -> None:
        if self._is_apart:
            return
        match delta:
            case TextDelta(text):
                self._host.emit(events.Text(text=text, messageId=self._message_id))
            case ReasoningDelta(text):
                self._host.emit(events.Reasoning(text=text, messageId=self._message_id))
            case CallDelta(call_id, name, arguments):
                self._host.emit(
                    events.ToolCallDelta(toolCallId=call_id, name=name, arguments=arguments)
                )

    def _wait(self, text: str) -> None:
        self._host.emit(events.Notice(level="warning", text=text))

    def _retract(self) -> None:
        if self._is_apart:
            return
        self._host.emit(events.Retract(messageId=self._message_id))
        self._message_id = f"msg_{secrets.token_hex(8)}"

    def _show_again(self, reply: Reply) -> None:
        """What was shown of the reply was not what it is: calls, or reasoning, had come as text."""
        self._retract()
        if reply.reasoning:
            self._delta(ReasoningDelta(reply.reasoning))
        if reply.text:
            self._delta(TextDelta(reply.text))

    def _keep_partial(self) -> None:
        """The text so far of a reply that was cancelled stays in the history."""
        partial = self._client.partial
        if partial is None or self._is_apart:
            return
        reply = partial.reply()
        if reply.text or reply.reasoning:
            self._record_reply(reply, [], partial=True)

    def _record_reply(self, reply: Reply, calls: list[Call], *, partial: bool = False) -> None:
        usage = reply.usage
        self._record(
            Assistant(
                turn_id=self._turn_id,
                message_id=self._message_id,
                model=self._model,
                text=reply.text,
                reasoning=reply.reasoning,
                reasoning_key=reply.reasoning_key,
                calls=calls,
                partial=partial,
                input_tokens=usage.input,
                output_tokens=usage.output,
                cached_tokens=usage.cached,
            )
        )

    def _take(self, reply: Reply) -> None:
        reply = replace(reply, calls=[_known(call) for call in reply.calls])
        if reply.reread:
            self._show_again(reply)
        usage = reply.usage
        self._compactor.counted(usage)
        self._record_reply(reply, reply.calls)
        if usage.input or usage.output:
            self._host.emit(
                events.Usage(
                    input=usage.input,
                    output=usage.output,
                    cached=usage.cached,
                    reasoning=usage.reasoning or UNSET,
                    context=usage.input + usage.output,
                    window=self._compactor.window or UNSET,
                )
            )
        self._planned = {call.id: call for call in reply.calls}
        plans = [
            machine.CallPlan(
                call_id=call.id,
                parallel=call.name in TOOLS and TOOLS[call.name].risk == "read",
                problem=problem(call),
            )
            for call in reply.calls
        ]
        self._news.put_nowait(machine.Replied(plans, truncated=reply.is_cut, empty=reply.is_empty))

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
            judged = await self._calls.judge(call, self._mode)
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


def _new_call_id() -> str:
    return f"call_{secrets.token_hex(8)}"
