"""The loop of one turn: ask the model, run its calls, ask again; each call has exactly one result before that.

Calls that only read run together; all others alone and in order. A cancel ends what runs and gives the rest a
result that says so. A reply that says nothing, or was cut off at the output limit, is answered with a word to go on, a
few times. What a person says meanwhile is taken in before the next request; a reply that would end the turn is followed
by another request for it. The last request that a turn may make, by its number or by a budget, says so, and runs
nothing any more.
"""

from collections.abc import Sequence
from typing import Final, Literal, assert_never

from msgspec import Struct

from lembasd.store.records import TurnError

CANCELLED_TEXT: Final = "Cancelled by the person before it ran."
TRUNCATED_TEXT: Final = "This did not run: the reply was cut off at the model's output limit."

LAST_STEP_TEXT: Final = "This did not run: the turn has used up its requests."

#: what the model is told in the middle of a turn
Word = Literal["empty", "cut", "last_step", "budget"]
StopReason = Literal["end_turn", "max_turn_requests", "max_tokens", "cancelled"]


class Limits(Struct, frozen=True):
    """Of one turn: its requests, and how often it is told to go on after an empty reply, or one that was cut off.

    Its budgets are calls made, tokens written and tokens read anew (not from the server's cache); None: no bound.
    """

    requests: int
    empty: int = 0
    cut: int = 0
    calls: int | None = None
    output_tokens: int | None = None
    input_tokens: int | None = None


class CallPlan(Struct, frozen=True):
    """A call as the loop sees it. `problem`: why it can never run (arguments, unknown tool); None: it may."""

    call_id: str
    parallel: bool
    problem: str | None = None


class Begin(Struct, frozen=True):
    pass


class Replied(Struct, frozen=True):
    """The model's whole reply came. `truncated`: it was cut off at the output limit; `empty`: it says nothing.

    Tokens as the server counted them; `input_tokens` without those that its cache had.
    """

    calls: Sequence[CallPlan]
    truncated: bool = False
    empty: bool = False
    output_tokens: int = 0
    input_tokens: int = 0


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


class SteerCame(Struct, frozen=True):
    """A person said something for the running turn."""


Input = Begin | Replied | Failed | AskCancelled | CallEnded | CancelCame | SteerCame


class AskModel(Struct, frozen=True):
    """Make the turn's n-th request; answered by Replied, Failed or AskCancelled."""

    step: int


class Tell(Struct, frozen=True):
    """Say this word to the model with the next request."""

    word: Word


class TakeSteers(Struct, frozen=True):
    """Give the model with the next request what was said for the turn meanwhile."""


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


Effect = AskModel | Tell | TakeSteers | RunCalls | GiveResult | StopWork | Finish


class TurnMachine:
    """One turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._step = 0
        self._empties = 0
        self._cuts = 0
        self._calls = 0
        self._output_tokens = 0
        self._input_tokens = 0
        self._steered = False
        #: the request under way is the turn's last
        self._is_last = False
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
                return self._finish("cancelled") if self._cancelled else self._ask()
            case Replied():
                self._asking = False
                self._output_tokens += news.output_tokens
                self._input_tokens += news.input_tokens
                return self._replied(news)
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
            case SteerCame():
                self._steered = True
                return []
            case _:
                assert_never(news)

    @property
    def _is_spent(self) -> bool:
        """Whether a budget is used up."""
        limits = self._limits
        budgets = (
            (self._calls, limits.calls),
            (self._output_tokens, limits.output_tokens),
            (self._input_tokens, limits.input_tokens),
        )
        return any(most is not None and used >= most for used, most in budgets)

    def _ask(self, *words: Word) -> list[Effect]:
        self._step += 1
        self._asking = True
        said: list[Effect] = [Tell(word) for word in words]
        if self._steered:
            self._steered = False
            said.append(TakeSteers())
        if self._step >= self._limits.requests:
            self._is_last = True
            said.append(Tell("last_step"))
        elif self._is_spent:
            self._is_last = True
            said.append(Tell("budget"))
        return [*said, AskModel(self._step)]

    def _replied(self, reply: Replied) -> list[Effect]:
        self._truncated = reply.truncated
        if reply.calls:
            self._waiting = list(reply.calls)
            return self._go_on()
        if self._cancelled:
            return self._finish("cancelled")
        if reply.truncated:
            return self._ask("cut") if self._may_go_on_after_cut() else self._finish("max_tokens")
        if self._is_last:
            return self._finish("max_turn_requests")
        if self._steered:
            return self._ask()
        if reply.empty and self._empties < self._limits.empty:
            self._empties += 1
            return self._ask("empty")
        return self._finish("end_turn")

    def _may_go_on_after_cut(self) -> bool:
        if self._cuts >= self._limits.cut or self._is_last:
            return False
        self._cuts += 1
        return True

    def _go_on(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting:
            text = self._why_not(self._waiting[0])
            if text is None:
                break
            effects.append(GiveResult(self._waiting.pop(0).call_id, text))
        if self._waiting:
            batch = self._batch()
            self._calls += len(batch)
            self._running = {call.call_id for call in batch}
            return [*effects, RunCalls(tuple(call.call_id for call in batch))]
        if self._cancelled:
            return [*effects, *self._finish("cancelled")]
        if self._truncated and not self._may_go_on_after_cut():
            return [*effects, *self._finish("max_tokens")]
        if self._is_last:
            return [*effects, *self._finish("max_turn_requests")]
        return [*effects, *self._ask()]

    def _why_not(self, call: CallPlan) -> str | None:
        if self._cancelled:
            return CANCELLED_TEXT
        if self._truncated:
            return TRUNCATED_TEXT
        if self._is_last:
            return LAST_STEP_TEXT
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
