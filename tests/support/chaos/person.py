"""Who works with the sessions of a chaos run, over the link: each prompt is asked again until it has its answer."""

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any, Final

import msgspec

from tests.support.bare_client import BareClient, LinkLost, Message, Refused
from tests.support.chaos.model import RAN
from tests.support.fake_instance import FakeInstance
from tests.support.sessions import prompt

#: how often one prompt is sent, over links and for errors that ask for it; more is a prompt that never ends
MOST_TRIES: Final = 400
#: before a prompt that is to be sent again is
AGAIN_S: Final = 0.05


class Person:
    """Asks, answers cards with "once", and keeps the numbers of the messages that come (`replay`)."""

    def __init__(self, instance: FakeInstance) -> None:
        self._instance = instance
        self.link: BareClient | None = None
        self._linked = asyncio.Event()
        #: every answer that came, by turn
        self.answers: defaultdict[str, list[Any]] = defaultdict(list)
        self.tries: Counter[str] = Counter()
        #: turns that have no answer yet
        self.waiting: set[str] = set()
        #: turns whose command's result was shown
        self.shown: set[str] = set()
        #: the number of the last message of each session, and those that came again
        self._seen: dict[str, tuple[int, int]] = {}
        self.twice: list[str] = []
        self.gaps = 0
        self.links = 0
        self.cards = 0
        #: what ACP's schema has against what came
        self.faults: list[str] = []

    async def keep_linked(self) -> None:
        while True:
            try:
                self.link = await BareClient.of(self._instance, self._introduction(), self._hear)
            except (LinkLost, TimeoutError, Refused):
                continue  # the next one; a hub that ends refuses what it is asked
            self.links += 1
            self._linked.set()
            await self.link.closed()
            self.faults += self.link.judge.faults

    def _introduction(self) -> str:
        seen = {session: f"{epoch}:{seq}" for session, (epoch, seq) in self._seen.items()}
        lembas = {"protocol": 3, "show": True, "replay": seen or True}
        said = {"protocolVersion": 1, "clientCapabilities": {"_meta": {"lembas": lembas}}}
        return msgspec.json.encode(said).decode()

    async def up(self) -> BareClient:
        """The link, once there is one."""
        while not self.is_linked:
            self._linked.clear()
            await self._linked.wait()
        assert self.link is not None
        return self.link

    @property
    def is_linked(self) -> bool:
        return self.link is not None and not self.link.device.closed.is_set()

    async def new_session(self, cwd: str, mode: str) -> str:
        params = {"cwd": cwd, "mcpServers": [], "_meta": {"mode": mode}}
        made = await (await self.up()).value("session/new", params)
        return str(made["sessionId"])

    async def turn(self, session: str, flavour: str, turn: str) -> None:
        """To its answer, or to its error."""
        self.waiting.add(turn)
        while self.tries[turn] < MOST_TRIES:
            self.tries[turn] += 1
            link = await self.up()
            asked = link.start("session/prompt", prompt(session, f"please {flavour} {turn}", turn))
            try:
                answer: Any = await link.result(asked, None)
            except LinkLost:
                continue
            except Refused as refused:
                if (refused.data or {}).get("retryable"):
                    if (refused.data or {}).get("reason") == "store":
                        self.tries[turn] -= 1  # a full disk: nothing of it was begun
                    await asyncio.sleep(AGAIN_S)
                    continue
                answer = [refused.code, refused.message, refused.data]
            self.answers[turn].append(answer)
            self.waiting.discard(turn)
            return
        raise AssertionError(f"{turn} has no answer after {MOST_TRIES} tries")

    def _hear(self, link: BareClient, message: Message) -> None:
        self.shown.update(RAN.findall(message.text))
        if message.method == "session/request_permission":
            self.cards += 1
            with suppress(ConnectionError):
                link.allow(message)
        elif message.method == "_hub/gap":
            self.gaps += 1
        elif '"seq":"' in message.text:
            self._number(message)

    def _number(self, message: Message) -> None:
        session = message.params["sessionId"]
        epoch, seq = message.params["_meta"]["lembas"]["seq"].split(":")
        number = int(epoch), int(seq)
        if number <= self._seen.get(session, (0, 0)):
            self.twice.append(message.text)
        self._seen[session] = number
