"""The loop of one turn: ask the model, run its calls, ask again; each call has exactly one result before that.

Calls that only read run together; all others alone and in order. A cancel ends what runs and gives the rest a
result that says so.
"""

from collections.abc import Sequence
from typing import Final, Literal, assert_never

from msgspec import Struct

from lembasd.store.records import TurnError

CANCELLED_TEXT: Final = "Cancelled by the person before it ran."
TRUNCATED_TEXT: Final = "This did not run: the reply was cut off at the model's output limit."

StopReason = Literal["end_turn", "max_turn_requests", "max_tokens", "cancelled"]


class CallPlan(Struct, frozen=True):
    """A call as the loop sees it. `problem`: why it can never run (arguments, unknown tool); None: it may."""

    call_id: str
    parallel: bool
    problem: str | None = None


class Begin(Struct, frozen=True):
    pass


class Replied(Struct, frozen=True):
    """The model's whole reply came. `truncated`: it was cut off at the output limit."""

    calls: Sequence[CallPlan]
    truncated: bool = False


class Failed(Struct, frozen=True):
    """The model cannot be had; retries are over."""

    error: TurnError


class AskCancelled(Struct, frozen=True):
    """The request was given up on a cancel."""


class CallEnded(Struct, frozen=True):
    """A call that was run has its result."""

    call_id: str


class CancelCame(Struct, frozen=True):
    pass


Input = Begin | Replied | Failed | AskCancelled | CallEnded | CancelCame


class AskModel(Struct, frozen=True):
    """Make the turn's n-th request; answered by Replied, Failed or AskCancelled."""

    step: int


class RunCalls(Struct, frozen=True):
    """Run these side by side; each is answered by CallEnded."""

    call_ids: tuple[str, ...]


class GiveResult(Struct, frozen=True):
    """Give a call its result without running it."""

    call_id: str
    text: str


class StopWork(Struct, frozen=True):
    """Cancel the request or the calls that run; they end as they do."""


class Finish(Struct, frozen=True):
    """The turn is over."""

    stop_reason: StopReason | None = None
    error: TurnError | None = None


Effect = AskModel | RunCalls | GiveResult | StopWork | Finish


class TurnMachine:
    """One turn. `max_steps` bounds its model requests."""

    def __init__(self, max_steps: int) -> None:
        self._max_steps = max_steps
        self._step = 0
        self._waiting: list[CallPlan] = []
        self._running: set[str] = set()
        self._asking = False
        self._cancelled = False
        self._truncated = False
        self.finished = False

    def handle(self, news: Input) -> list[Effect]:
        if self.finished:
            return []
        match news:
            case Begin():
                return self._ask()
            case Replied(calls, truncated):
                self._asking = False
                return self._replied(calls, truncated=truncated)
            case Failed(error):
                self._asking = False
                return self._finish("cancelled") if self._cancelled else self._finish(error=error)
            case AskCancelled():
                self._asking = False
                return self._finish("cancelled")
            case CallEnded(call_id):
                self._running.discard(call_id)
                return [] if self._running else self._go_on()
            case CancelCame():
                return self._cancel()
            case _:
                assert_never(news)

    def _ask(self) -> list[Effect]:
        self._step += 1
        self._asking = True
        return [AskModel(self._step)]

    def _replied(self, calls: Sequence[CallPlan], *, truncated: bool) -> list[Effect]:
        self._truncated = truncated
        if not calls:
            if self._cancelled:
                return self._finish("cancelled")
            return self._finish("max_tokens" if truncated else "end_turn")
        self._waiting = list(calls)
        return self._go_on()

    def _go_on(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting:
            text = self._why_not(self._waiting[0])
            if text is None:
                break
            effects.append(GiveResult(self._waiting.pop(0).call_id, text))
        if self._waiting:
            batch = self._batch()
            self._running = {call.call_id for call in batch}
            return [*effects, RunCalls(tuple(call.call_id for call in batch))]
        if self._cancelled:
            return [*effects, *self._finish("cancelled")]
        if self._truncated:
            return [*effects, *self._finish("max_tokens")]
        if self._step >= self._max_steps:
            return [*effects, *self._finish("max_turn_requests")]
        return [*effects, *self._ask()]

    def _why_not(self, call: CallPlan) -> str | None:
        if self._cancelled:
            return CANCELLED_TEXT
        if self._truncated:
            return TRUNCATED_TEXT
        return call.problem

    def _batch(self) -> list[CallPlan]:
        """The next calls that run together: reads side by side, anything else alone."""
        batch = [self._waiting.pop(0)]
        while batch[0].parallel and self._waiting:
            if not self._waiting[0].parallel or self._why_not(self._waiting[0]) is not None:
                break
            batch.append(self._waiting.pop(0))
        return batch

    def _cancel(self) -> list[Effect]:
        if self._cancelled:
            return []
        self._cancelled = True
        return [StopWork()] if self._asking or self._running else []

    def _finish(
        self, stop_reason: StopReason | None = None, error: TurnError | None = None
    ) -> list[Effect]:
        self.finished = True
        return [Finish(stop_reason, error)]
