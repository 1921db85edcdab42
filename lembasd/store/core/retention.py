"""What is to go of what is stored: of each session by its age, then undo by the size of all. Never of an open session."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from lembasd.protocol.retention import DAY_S, Retention

#: what can go of a session by itself; `session` is all of it
Part = Literal["session", "attachments", "undo", "damaged"]
#: since the last time that the clock was looked at; a longer time is a clock that jumped until a day has shown that it is none
LONGEST_AWAY_S: Final = 30 * DAY_S


class Stored(Struct, frozen=True, kw_only=True):
    """One session on the disk. Times are Unix seconds, sizes bytes; `total_bytes` holds the other sizes too."""

    session_id: str
    changed: float
    is_open: bool = False
    total_bytes: int = 0
    attachments_bytes: int = 0
    undo_bytes: int = 0
    damaged_bytes: int = 0
    damaged_at: float = 0.0


class Drop(Struct, frozen=True, order=True):
    """Remove this part of this session."""

    session_id: str
    part: Part
    size: int


class Plan(Struct, frozen=True):
    """What is to go, and what is left then. `over`: whether that is more than it may be."""

    drops: list[Drop]
    left_bytes: int
    over: bool


def is_due(now: float, last: float | None, every_s: float) -> bool:
    """Whether it is time again. A clock that went back makes it due: what is old is judged anew then."""
    return last is None or not 0 <= now - last < every_s


def is_doubtful(now: float, last: float | None) -> bool:
    """Whether the clock may have jumped ahead, so that everything looks old: then nothing goes by its age this time."""
    return last is not None and now - last > LONGEST_AWAY_S


def plan(stored: Sequence[Stored], kept: Retention, now: float, *, by_age: bool = True) -> Plan:
    """What is to go now. The size of all counts what is open too, though nothing of that goes."""
    drops: list[Drop] = []
    gone: set[str] = set()
    for one in stored:
        if by_age and not one.is_open:
            drops += _of_age(one, kept, now)
    gone = {drop.session_id for drop in drops if drop.part in ("session", "undo")}
    has_undo = [
        one for one in stored if one.undo_bytes and not one.is_open and one.session_id not in gone
    ]
    left = sum(one.total_bytes for one in stored) - sum(drop.size for drop in drops)
    for one in sorted(has_undo, key=lambda one: (one.changed, one.session_id)):
        if left <= kept.max_bytes:
            break
        drops.append(Drop(one.session_id, "undo", one.undo_bytes))
        left -= one.undo_bytes
    return Plan(drops, left, left > kept.max_bytes)


def _of_age(one: Stored, kept: Retention, now: float) -> Iterable[Drop]:
    age_s = now - one.changed
    if _is_over(age_s, kept.sessions_s):
        yield Drop(one.session_id, "session", one.total_bytes)
        return
    if one.attachments_bytes and _is_over(age_s, kept.attachments_s):
        yield Drop(one.session_id, "attachments", one.attachments_bytes)
    if one.undo_bytes and _is_over(age_s, kept.undo_s):
        yield Drop(one.session_id, "undo", one.undo_bytes)
    if one.damaged_bytes and _is_over(now - one.damaged_at, kept.damaged_s):
        yield Drop(one.session_id, "damaged", one.damaged_bytes)


def _is_over(age_s: float, most_s: float | None) -> bool:
    return most_s is not None and age_s > most_s


def selected(
    stored: Sequence[Stored],
    now: float,
    *,
    older_s: float | None = None,
    larger_bytes: int | None = None,
    keep: int = 0,
) -> list[Stored]:
    """The sessions that a person wants deleted, the oldest first: all that is asked for is true of each.

    The `keep` that changed last stay, the open ones counted among them; of open ones none is ever selected.
    """
    newest_first = sorted(stored, key=lambda one: (-one.changed, one.session_id))
    return [
        one
        for one in reversed(newest_first[keep:])
        if not one.is_open
        and (older_s is None or now - one.changed > older_s)
        and (larger_bytes is None or one.total_bytes > larger_bytes)
    ]
