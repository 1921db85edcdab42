"""The model of a chaos run: it counts what it is asked, and holds each turn until the run lets it go on.

A turn's prompt ends in `<flavour> turn-<n>`. Its first step writes the turn's name to a file outside; `full` has its second
request refused as too long, so that the session is summed up; `recall` runs nothing.
"""

import asyncio
import re
from collections import Counter, defaultdict
from typing import Any, Final

import msgspec

from lembasd.harness.loader import LOOP
from tests.support.scripted_model import Reply, ScriptedModel

#: what a turn's command prints; its command line does not hold it, so that only a result says it
RAN: Final = re.compile(r"ran-(turn-\d+)")
_OVERFLOW: Final = Reply(
    status=400,
    raw=b'{"error":{"message":"the request exceeds the available context size"}}',
    headers={"Content-Type": "application/json"},
)


class CountingModel:
    """`server` plays it. Turns are held from their first reply's first words on, until `let_go`."""

    def __init__(self, server: ScriptedModel) -> None:
        #: how often each turn's first request came
        self.begun: Counter[str] = Counter()
        #: by a turn that asked what it remembers: the turns whose results it was shown
        self.remembered: dict[str, set[str]] = {}
        self.asked = 0
        self._holds: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._refused: set[str] = set()
        #: whom the next first request is told, and what lets it be answered
        self._arrived: asyncio.Future[str] | None = None
        self._answered = asyncio.Event()
        server.choose = self._choose
        server.before = self._before

    def let_go(self, turn: str) -> None:
        self._holds[turn].set()

    def let_all_go(self) -> None:
        """Hold nothing any more, whatever comes."""
        self._holds.default_factory = _set
        for hold in self._holds.values():
            hold.set()

    def next_request(self) -> "asyncio.Future[str]":
        """The turn of the next first request, which waits for its first byte until `answer`."""
        self._answered.clear()
        self._arrived = asyncio.get_running_loop().create_future()
        return self._arrived

    def answer(self) -> None:
        self._arrived = None
        self._answered.set()

    async def _before(self, body: dict[str, Any]) -> None:
        _, turn = _asked(body)
        if turn and self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(turn)
            await self._answered.wait()

    def _choose(self, body: dict[str, Any]) -> Reply:
        self.asked += 1
        last = body["messages"][-1]
        flavour, turn = _asked(body)
        known = set(RAN.findall(msgspec.json.encode(body["messages"]).decode()))
        if str(last["content"]) == LOOP.compaction.ask:
            return Reply(text="done: " + " ".join(f"ran-{one}" for one in sorted(known)))
        if turn:
            self.begun[turn] += 1
            if flavour == "recall":
                self.remembered[turn] = known
                return Reply(text="That is all.")
            command = f"echo {turn} >> outside && echo r''an-{turn}"
            calls: list[tuple[str, dict[str, Any] | str]] = [("bash", {"command": command})]
            return Reply(text=f"I write {flavour}.", calls=calls, hold=self._holds[turn])
        flavour, turn = _prompt(body)
        if last["role"] == "tool" and flavour == "full" and turn not in self._refused:
            self._refused.add(turn)
            return _OVERFLOW
        return Reply(text="done")


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _asked(body: dict[str, Any]) -> tuple[str, str]:
    """Flavour and turn of a turn's first request; ("", "") of any other."""
    last = body["messages"][-1]
    if last["role"] != "user" or "<summary>" in str(last["content"]):
        return "", ""
    return _words(last)


def _words(message: dict[str, Any]) -> tuple[str, str]:
    words = str(message["content"]).split()[-2:]
    if len(words) == 2 and words[1].startswith("turn-"):
        return words[0], words[1]
    return "", ""


def _prompt(body: dict[str, Any]) -> tuple[str, str]:
    """Flavour and turn of the prompt that a request works on."""
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            return _words(message)
    return "", ""
