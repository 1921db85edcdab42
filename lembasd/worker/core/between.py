"""What is done between turns, one at a time: a summary, a rewind, another model. Prompts that come meanwhile wait."""

from collections import deque
from typing import Final, assert_never

from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.store.records import TurnError
from lembasd.worker.core import effects, inputs
from lembasd.worker.core.inputs import Waiter

#: of these that may wait for each other; one more is refused (a client that does not wait for its answers)
MAX_WAITING: Final = 16
WORKS: Final = TurnError(INVALID_PARAMS, "the session works; ask again when it is done")


class Between:
    """The queue: the first is under way once it `begun`."""

    def __init__(self) -> None:
        #: what was asked, and whether the limits bind who asks
        self._asked: deque[tuple[inputs.BetweenTurns, bool]] = deque()
        self._begun = False

    def __bool__(self) -> bool:
        return bool(self._asked)

    @property
    def is_summing(self) -> bool:
        """Whether a summary is under way, which can be cancelled."""
        return self._begun and isinstance(self._asked[0][0], inputs.CompactAsked)

    def add(self, what: inputs.BetweenTurns, *, judge: bool) -> bool:
        """Take it; False where it must not wait: behind a summary, or behind too many."""
        sums = any(isinstance(one, inputs.CompactAsked) for one, _ in self._asked)
        if sums or len(self._asked) >= MAX_WAITING:
            return False
        self._asked.append((what, judge))
        return True

    def begin(self) -> list[effects.Effect]:
        """Begin the first one, where none is under way."""
        if self._begun or not self._asked:
            return []
        self._begun = True
        what, judge = self._asked[0]
        match what:
            case inputs.CompactAsked():
                return [effects.StartCompaction(judge)]
            case inputs.RewindAsked(turn_id=turn_id):
                return [effects.Rewind(turn_id, judge)]
            case inputs.ConfigureAsked(model=model, effort=effort):
                return [effects.Choose(model, effort, judge)]
            case _:
                assert_never(what)

    def ended(self) -> Waiter | None:
        """The one under way is done; who asked for it."""
        if not self._begun:
            return None
        self._begun = False
        return self._asked.popleft()[0].waiter

    def drop_waiting(self) -> list[Waiter]:
        """None of those that wait is begun; who asked for them."""
        waiting = list(self._asked)[1 if self._begun else 0 :]
        self._asked = deque(list(self._asked)[: len(self._asked) - len(waiting)])
        return [one.waiter for one, _ in waiting]
