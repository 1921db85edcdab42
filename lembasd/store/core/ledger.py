"""The turn ledger of one session: which turn ids were taken, how far each is, and how it was answered.

An id that is known never runs again. The newest ids are kept, up to a bound; an older one is forgotten and would be
a new turn. Nothing here knows where a ledger is kept: it is folded from the journal and merged with the turns file.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lembasd.protocol.acp import CommandResult
from lembasd.protocol.limits import TURN_IDS_KEPT
from lembasd.store.records import TurnEnded, TurnError

State = Literal["queued", "running", "done"]

_RANK: Final[dict[State, int]] = {"queued": 0, "running": 1, "done": 2}


class Answer(Struct, frozen=True, omit_defaults=True):
    """How a turn was answered: a stop reason, or an error. Exactly one is set.

    `unsent`: what was said for the turn (`_lembas/steer`) and never given to the model.
    """

    stop_reason: str | None = None
    error: TurnError | None = None
    unsent: list[str] = []
    command: CommandResult | None = None


def as_record(turn_id: str, answer: Answer) -> TurnEnded:
    """The line of a journal that says how a turn was answered."""
    return TurnEnded(
        turn_id=turn_id,
        stop_reason=answer.stop_reason,
        error=answer.error,
        unsent=answer.unsent,
        command=answer.command,
    )


def from_record(end: TurnEnded) -> Answer:
    """How a turn was answered, by its line."""
    return Answer(end.stop_reason, end.error, end.unsent, end.command)


class Turn(Struct, frozen=True, omit_defaults=True):
    """One id. `at` and `ended_at` are Unix seconds; `answer` is set exactly when it is done."""

    turn_id: str
    at: float
    state: State = "queued"
    answer: Answer | None = None
    ended_at: float = 0.0


class Ledger(Struct):
    """The known ids, in the order in which they were accepted."""

    turns: dict[str, Turn] = {}

    def find(self, turn_id: str) -> Turn | None:
        """What is known of an id; None: it may be accepted."""
        return self.turns.get(turn_id)

    def accept(self, turn_id: str, at: float) -> bool:
        """Take a new id as queued; False, and nothing changes, when it is known."""
        if turn_id in self.turns:
            return False
        self.turns[turn_id] = Turn(turn_id, at)
        self.trim()
        return True

    def start(self, turn_id: str, at: float) -> bool:
        """Let a queued id run; False, and nothing changes, when it has run or runs.

        An id that is not known (its `accepted` line was damaged) counts as accepted now.
        """
        turn = self.turns.get(turn_id) or Turn(turn_id, at)
        if turn.state != "queued":
            return False
        self.turns[turn_id] = replace(turn, state="running")
        return True

    def end(self, turn_id: str, answer: Answer, at: float) -> bool:
        """Keep an id's answer; False, and nothing changes, when it has one: the first stays."""
        turn = self.turns.get(turn_id) or Turn(turn_id, at)
        if turn.state == "done":
            return False
        self.turns[turn_id] = replace(turn, state="done", answer=answer, ended_at=at)
        self.trim()
        return True

    def forget(self, turn_id: str) -> None:
        """Take an acceptance back that was never written."""
        self.turns.pop(turn_id, None)

    @property
    def queued(self) -> list[str]:
        """The ids that wait, in order."""
        return [turn.turn_id for turn in self.turns.values() if turn.state == "queued"]

    @property
    def running(self) -> list[str]:
        """The ids that started and have no end: one at most, but for a damaged journal."""
        return [turn.turn_id for turn in self.turns.values() if turn.state == "running"]

    @property
    def last_done(self) -> str | None:
        """The id that ended last."""
        done = [turn for turn in self.turns.values() if turn.state == "done"]
        return max(done, key=lambda turn: turn.ended_at).turn_id if done else None

    def done(self) -> list[Turn]:
        """The finished turns, as the turns file keeps them."""
        return [turn for turn in self.turns.values() if turn.state == "done"]

    def trim(self) -> None:
        """Forget the oldest finished ids over the bound. One that waits or runs is never forgotten."""
        over = len(self.turns) - TURN_IDS_KEPT
        if over > 0:
            oldest = sorted(self.done(), key=lambda turn: (turn.at, turn.turn_id))
            for turn in oldest[:over]:
                del self.turns[turn.turn_id]


def _furthest(one: Turn, other: Turn) -> Turn:
    """What is known of an id that both ledgers have: the further state; of two answers the earlier one."""
    at = min(one.at, other.at)
    if one.state != other.state:
        return replace(max(one, other, key=lambda turn: _RANK[turn.state]), at=at)
    earlier = min(one, other, key=lambda turn: (turn.ended_at, msgspec.json.encode(turn.answer)))
    return replace(earlier, at=at)


def merge(one: Ledger, other: Ledger) -> Ledger:
    """Everything both know. merge(a, b) == merge(b, a), and merge(a, a) == a but for the order of ids."""
    turns = dict(one.turns)
    for turn_id, turn in other.turns.items():
        known = turns.get(turn_id)
        turns[turn_id] = turn if known is None else _furthest(known, turn)
    merged = Ledger({turn.turn_id: turn for turn in sorted(turns.values(), key=_age)})
    merged.trim()
    return merged


def rebuilt(journal: Ledger, kept: Ledger) -> Ledger:
    """The ledger at open: the journal's, and from the turns file only answers that the journal has lost."""
    lost = {
        turn_id: turn
        for turn_id, turn in kept.turns.items()
        if turn.state == "done"
        and ((known := journal.turns.get(turn_id)) is None or known.state != "done")
    }
    # an id the journal does not know is older than what it knows, or its lines are damaged: never newer
    unknown = {turn_id: turn for turn_id, turn in lost.items() if turn_id not in journal.turns}
    whole = Ledger({**unknown, **journal.turns, **lost})
    whole.trim()
    return whole


def _age(turn: Turn) -> tuple[float, str]:
    return turn.at, turn.turn_id
