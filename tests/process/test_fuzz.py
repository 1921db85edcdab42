"""Whatever comes over link and socket, the hub stays up, stays small, and answers every request once.

`LEMBASD_FUZZ=100000` asks for as many messages; without it there are a few thousand.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import psutil
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lembasd import __version__
from lembasd.ipc.connect import connect
from lembasd.ipc.peer import Peer
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import RPC, Envelope
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.hello import Hello
from tests.support.bare_client import LEMBAS
from tests.support.daemon import Install
from tests.support.fake_instance import TOKEN, Device, FakeInstance
from tests.support.scripted_model import ScriptedModel

#: messages in all
MESSAGES: Final = int(os.environ.get("LEMBASD_FUZZ", "3000"))
#: in one example, before the answers are waited for
BATCH: Final = 8
#: what a loaded machine needs for the answers of one batch, turns included
ANSWER_S: Final = 60.0
#: what a hub may grow by after its first quarter: allocators keep pages
GROWTH_BYTES: Final = 12 << 20

pytestmark = [pytest.mark.process, pytest.mark.timeout(120 + MESSAGES / 20)]

# ── what is said ────────────────────────────────────────────────────────────────────────────────

INITIALIZE: Final[dict[str, Any]] = msgspec.json.decode(LEMBAS)
SESSION, TERMINAL = "{session}", "{terminal}"
PROMPT = {"sessionId": SESSION, "prompt": [{"type": "text", "text": "go"}]}
#: what is taken from and changed; nothing here opens a session, or ends the hub
SHAPES: Final[list[tuple[str, Any]]] = [
    ("initialize", INITIALIZE),
    ("session/new", {"cwd": "/nowhere", "mcpServers": [], "_meta": {"mode": "auto"}}),
    ("session/prompt", {**PROMPT, "_meta": {"lembas": {"turnId": "t"}}}),
    ("session/prompt", PROMPT),
    ("session/set_mode", {"sessionId": SESSION, "modeId": "auto"}),
    ("session/cancel", {"sessionId": SESSION}),
    ("_lembas/session/status", {"sessionId": SESSION}),
    ("_lembas/session/history", {"sessionId": SESSION}),
    ("_lembas/session/compact", {"sessionId": SESSION}),
    ("_lembas/files/search", {"sessionId": SESSION, "query": "a", "limit": 3}),
    ("_lembas/files/search", {"cwd": "/nowhere", "query": "a"}),
    ("_lembas/directories", {"path": "/nowhere"}),
    ("_lembas/steer", {"sessionId": SESSION, "text": "and", "messageId": "m"}),
    ("_lembas/terminal/input", {"terminalId": TERMINAL, "data": "bHMK"}),
    ("_lembas/terminal/resize", {"terminalId": TERMINAL, "cols": 80, "rows": 24}),
    ("_lembas/terminal/close", {"terminalId": TERMINAL}),
    ("_lembas/hello", {"protocol": 3}),
    ("session/update", {"sessionId": SESSION, "update": {}}),
    ("_hub/attach", {"sessionId": SESSION, "since": "1:0"}),
    ("_hub/status", {}),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from([SESSION, TERMINAL, "ses_" + "0" * 26, "../../etc", 2**70, "\u2028"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in it."""
    found = [path]
    if isinstance(value, dict):
        for key, one in value.items():
            found += places(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            found += places(one, (*path, index))
    return found


def changed(value: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy of it with `change(holder, key)` done at `path`."""
    copy = msgspec.json.decode(msgspec.json.encode(value))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return copy


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """A message that may be, with one to three things wrong."""
    method, params = draw(st.sampled_from(SHAPES))
    message: Any = {"jsonrpc": "2.0", "method": method, "params": params}
    if draw(st.integers(0, 3)):
        message["id"] = "{id}"
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(places(message)[1:] or [()]))
        if not path:
            break
        if draw(st.booleans()):
            message = changed(message, path, lambda holder, key: holder.pop(key))
        else:
            new = draw(VALUES)
            message = changed(message, path, lambda holder, key: holder.__setitem__(key, new))  # noqa: B023 - called at once
    return msgspec.json.encode(message)


ODD_TEXTS: Final = [
    b"",
    b" ",
    b"null",
    b"[]",
    b"{}",
    b'{"id":1}',
    b'{"id":{},"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":"{id}","method":"initialize","params":[1]}',
    b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]',
    b'{"jsonrpc":"2.0","id":"{id}","method":"session/prompt","params":{"sessionId":"\\ud800"}}',
    b'{"jsonrpc":"2.0","id":1e400,"method":"_hub/status"}',
    b'{"jsonrpc":"2.0","id":"{session}:1:1","result":{"outcome":{"outcome":"selected","optionId":"once"}}}',
    b'{"jsonrpc":"2.0","id":"{session}:1:0","error":{"code":"x"}}',
    b'{"jsonrpc":"2.0","id":null,"result":null,"error":null,"method":""}',
    b'{"method":"session/cancel","params":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'{"id":"{id}","method":"session/prompt","params":{"sessionId":"{session}","prompt":'
    + b"[" * 5000
    + b"]" * 5000
    + b"}}",
    b"[" * 100_000,
    b'{"jsonrpc":"2.0","id":"{id}","method":"' + b"x" * 70_000 + b'"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"_hub/status","method":"initialize"}',
]
TEXTS = (
    mutants()
    | mutants()
    | mutants().flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end]))
    | st.sampled_from(ODD_TEXTS)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(str.encode)
)

# ── to whom ─────────────────────────────────────────────────────────────────────────────────────


class Channel(Protocol):
    def send(self, text: bytes) -> None: ...


class OverTheLink:
    def __init__(self, device: Device) -> None:
        self._device = device

    def send(self, text: bytes) -> None:
        self._device.send(text)


class OverTheSocket:
    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def send(self, text: bytes) -> None:
        self._peer.send(Envelope(kind=RPC, payload=text))


class Side:
    """One client: what it has to be answered, and what it was."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.channel: Channel
        self.owed: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.lost = ""
        self._news = asyncio.Event()

    # ── ipc.peer.PeerHandler ────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        pass

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == RPC:
            self.heard(message.payload)

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self.ended(reason)

    # ── both ────────────────────────────────────────────────────────────────────────────────────

    async def listen(self, device: Device) -> None:
        async for text in device.messages():
            self.heard(text)
        self.ended(f"closed by the device: {device.close_code}")

    def ended(self, reason: str) -> None:
        self.lost = reason or "lost"
        self._news.set()

    def heard(self, text: bytes) -> None:
        message = jsonrpc.peek(text)
        if message.is_reply and message.reply_id:
            self.answers[message.reply_id] += 1
            self._news.set()

    def say(self, text: bytes) -> None:
        """Send it; what is a request with an id of ours has to be answered."""
        try:
            message = jsonrpc.peek(text)
        except RequestRefused:
            message = None
        if message is not None and message.is_request and message.reply_id.startswith("q-"):
            self.owed.add(message.reply_id)
        self.channel.send(text)

    async def answered(self) -> None:
        """Wait for everything that is owed."""
        try:
            async with asyncio.timeout(ANSWER_S):
                while not self.lost and self.owed - self.answers.keys():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(
                f"{self.name}: no answer to {sorted(self.owed - self.answers.keys())[:5]}"
            ) from None
        assert not self.lost, f"{self.name} was cut: {self.lost}"


class Fuzz:
    """A hub with a link and two clients of the socket, of which one never says initialize."""

    def __init__(self, install: Install, sides: list[Side], session: str) -> None:
        self._hub = psutil.Process(install.hub.pid if install.hub else 0)
        self._sides = sides
        self._session = session.encode()
        self._number = 0
        self.sent = 0
        #: bytes of the hub, first after a quarter
        self.sizes: list[int] = []

    async def exchange(self, batch: list[bytes]) -> None:
        for number, text in enumerate(batch):
            side = self._sides[(self.sent + number) % len(self._sides)]
            side.say(self._filled(text))
            side.say(self._filled(b'{"jsonrpc":"2.0","id":"{id}","method":"_lembas/no/such"}'))
            if side.name != "stranger":
                status = b'{"id":"{id}","method":"_lembas/session/status","params":{"sessionId":"{session}"}}'
                side.say(self._filled(status))
        for side in self._sides:
            await side.answered()
        self.sent += len(batch)
        if self.sent > MESSAGES / 4:
            self.sizes.append(self._hub.memory_info().rss)

    def _filled(self, text: bytes) -> bytes:
        self._number += 1
        text = text.replace(b"{id}", b"q-%d" % self._number)
        return text.replace(b"{session}", self._session).replace(
            b"{terminal}", b"term_" + b"0" * 12
        )


async def stranger(install: Install, name: str) -> Side:
    side = Side(name)
    hello = Hello(role="client", build=__version__, pid=os.getpid())
    side.channel = OverTheSocket(await connect(install.paths.socket, hello, side))
    return side


async def test_whatever_is_said_the_hub_stays_up_and_small_and_answers_each_request_once(
    short_tmp: Path, model: ScriptedModel
) -> None:
    async with FakeInstance() as instance, Install(short_tmp) as install:
        instance.model_port = model.port
        instance.models = [{"id": "scripted"}]
        install.configure()
        install.log_in(instance.url, token=TOKEN)
        await install.start_hub()
        link = Side("link")
        device = await instance.device()
        link.channel = OverTheLink(device)
        listening = asyncio.create_task(link.listen(device))
        local = await stranger(install, "local")
        sides = [link, local, await stranger(install, "stranger")]
        for side in sides[:2]:
            side.say(jsonrpc.request("q-hello", "initialize", INITIALIZE))
            await side.answered()
        client = await install.client()
        await client.initialize()
        made = await client.ask("session/new", {"cwd": str(install.project), "mcpServers": []})
        fuzz = Fuzz(install, sides, made["sessionId"])
        loop = asyncio.get_running_loop()

        @settings(
            max_examples=-(-MESSAGES // BATCH),
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize="LEMBASD_FUZZ" not in os.environ,
        )
        @given(st.lists(TEXTS, min_size=BATCH, max_size=BATCH))
        def run(batch: list[bytes]) -> None:
            asyncio.run_coroutine_threadsafe(fuzz.exchange(batch), loop).result()

        await asyncio.to_thread(run)

        history = await client.ask("_lembas/session/history", {"sessionId": made["sessionId"]})
        assert history["sessionId"] == made["sessionId"]
        for side in sides:
            assert side.owed
            assert {key: side.answers[key] for key in side.owed} == dict.fromkeys(side.owed, 1)
        assert fuzz.sent >= MESSAGES * 0.9
        assert fuzz.sizes[-1] - fuzz.sizes[0] < GROWTH_BYTES, fuzz.sizes[:: len(fuzz.sizes) // 10]
        client.hub.close()
        await install.stop()
        await listening
