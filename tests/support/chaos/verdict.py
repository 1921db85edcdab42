"""What must be true after a chaos run, by the model's count, the files outside and what the person was told."""

import asyncio
import time
from collections import Counter
from typing import Any, Final

import psutil

from lembasd.device.paths import Paths
from lembasd.store.journal import read
from lembasd.store.records import AnyRecord, TurnEnded, TurnStarted
from tests.support.chaos.work import Work
from tests.support.daemon import GONE_S, describe

#: how much more a hub may use after a run than one that has just begun
HUB_GROWTH_BYTES: Final = 16 * 1024 * 1024
#: what the person is told of a turn that could not be stored; it may have run, and is not asked for again
_NOT_STORED: Final = "store"


class Counted:
    """What was counted at the end of the run, before anything is judged."""

    def __init__(self, work: Work, paths: Paths) -> None:
        self._work = work
        outside = work.install.project / "outside"
        self.outside = Counter(outside.read_text().split() if outside.exists() else [])
        self.records = {session: read(paths, session).records for session in work.sessions}

    def faults(self, remembered: dict[str, set[str]]) -> list[str]:
        """Everything that is wrong; `remembered`: by session, the turns whose results its model still knows."""
        person, found = self._work.person, []
        found += [f"{turn} was done {n} times" for turn, n in self.outside.items() if n > 1]
        for turn, times in self._work.model.begun.items():
            if times > 1 and turn not in self._work.excused:
                found.append(f"{turn} was asked {times} times")
        for session, turns in self._work.turns.items():
            records = self.records[session]
            found += self._of_journal(session, records)
            found += self._of_answers(turns, ends_of(records))
            lost = (person.shown & set(turns)) - remembered[session]
            found += [f"the finished step of {turn} is lost" for turn in sorted(lost)]
        found += [f"came twice: {text}" for text in person.twice]
        found += [f"against the schema: {one}" for one in person.faults]
        return found

    def _of_journal(self, session: str, records: list[AnyRecord]) -> list[str]:
        starts = Counter(one.turn_id for one in records if isinstance(one, TurnStarted))
        ends = Counter(one.turn_id for one in records if isinstance(one, TurnEnded))
        return [
            f"{turn} of {session} {what} {n} times"
            for what, counted in (("began", starts), ("ended", ends))
            for turn, n in counted.items()
            if n > 1
        ]

    def _of_answers(self, turns: list[str], ends: dict[str, TurnEnded]) -> list[str]:
        found = []
        for turn in turns:
            given = self._work.person.answers[turn]
            kept = told(ends[turn]) if turn in ends else None
            found += [
                f"{turn} was answered {answer}, and its end is {kept}"
                for answer in given
                if answer != kept and not _says_not_stored(answer)
            ]
            if not given:
                found.append(f"{turn} has no answer")
            if self.outside[turn] and kept is None:
                found.append(f"{turn} was done and has no end")
        return found

    def was_stored(self, turn: str) -> bool:
        """Whether the person was told an outcome that stands."""
        return not any(_says_not_stored(one) for one in self._work.person.answers[turn])


def ends_of(records: list[AnyRecord]) -> dict[str, TurnEnded]:
    return {one.turn_id: one for one in records if isinstance(one, TurnEnded)}


def told(end: TurnEnded) -> Any:
    """What a client is told of a turn with this end."""
    if end.error is not None:
        return [end.error.code, end.error.message, end.error.data]
    return {"stopReason": end.stop_reason, "_meta": {"lembas": {"turnId": end.turn_id}}}


def _says_not_stored(answer: Any) -> bool:
    return isinstance(answer, list) and (answer[2] or {}).get("reason") == _NOT_STORED


async def only_these_run(work: Work, most: int) -> list[psutil.Process]:
    """Wait until no more than so many processes of the install are there; they are returned."""
    end = time.monotonic() + GONE_S
    while len(left := work.install.processes()) > most:
        if time.monotonic() > end:
            raise AssertionError(f"still running: {[describe(one) for one in left]}")
        await asyncio.sleep(0.05)
    return left
