"""The chat on the hub's socket: what the hub sends goes in, what the chat wants is done, through the death of hubs."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, assert_never

from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import METHOD_NOT_FOUND, LembasError, RequestRefused, says
from lembasd.protocol.jsonrpc import Message
from lembasd.protocol.lembas import LINK_PROTOCOL
from lembasd.protocol.limits import MB
from lembasd.tui.core import effects, incoming, inputs
from lembasd.tui.core.chat import Chat, Input
from lembasd.tui.core.effects import Effect
from lembasd.tui.ports import Ports

#: between two looks for a hub that is gone
_REDIAL_S: Final = 0.25
#: how long messages are taken in before the person's keys have their turn
_SLICE_S: Final = 0.004
#: bytes of a file that goes with a prompt (link.md); a larger one is refused
MAX_FILE_BYTES: Final = 10 * MB
#: the month's cost is asked again after this, at a turn's end
_MONTH_S: Final = 30.0
_INITIALIZE: Final = {
    "protocolVersion": 1,
    "clientCapabilities": {"_meta": {"lembas": {"protocol": LINK_PROTOCOL}}},
}


class Screen(Protocol):
    """What is done with the screen."""

    def changed(self) -> None:
        """The chat is another; draw it soon."""

    def show_list(self, what: str, typed: str) -> None:
        """Something to choose from: sessions, models, efforts, modes or settings."""

    def run_command(self, arguments: tuple[str, ...]) -> None:
        """Give the terminal to a command of `lembas`."""

    def copy_text(self, text: str) -> None: ...

    def compose_text(self, text: str) -> None:
        """Put a text where the person types."""

    def another_session(self) -> None:
        """Another one is shown from now on."""

    def leave(self) -> None: ...


class Connection:
    """`run` until the program ends."""

    def __init__(
        self, paths: Paths, ports: Ports, chat: Chat, screen: Screen, clock: Callable[[], float]
    ) -> None:
        self.chat = chat
        self._clock = clock
        self._paths = paths
        self._ports = ports
        self._screen = screen
        self._client: HubClient | None = None
        self._asked: dict[asyncio.Future[bytes], str] = {}
        self._came: deque[Message | asyncio.Future[bytes]] = deque()
        self._draining = False
        #: a bug met on the way ends the program, as it would anywhere else
        self._broken: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._month_at = 0.0

    async def run(self) -> None:
        """Connect, and connect again, for as long as the program runs. Raises LembasError when it cannot even begin."""
        client = self._new_client()
        await self._ports.connect(client, lambda said: self.feed(inputs.Starting(said)))
        await self._use(client)
        while True:
            client = await self._next()
            await self._use(client)

    def _new_client(self) -> HubClient:
        return HubClient(self._came_in, on_answer=self._came_in)

    async def _use(self, client: HubClient) -> None:
        """Until the connection ends, or another session wants one of its own."""
        session = self.chat.session_id
        since = self._client.seen(session) if self._client is not None else None
        try:
            await client.request("initialize", _INITIALIZE)
        except (NoHub, TimeoutError):
            client.close()
            return
        self._came.clear()
        self._asked.clear()
        self._client = client
        self.feed(inputs.Connected(since or ""))
        reached("tui.connected", session_id=session)
        await self._until_lost(client)
        # what came before the end is not lost with it
        self._take_in(None)

    async def _until_lost(self, client: HubClient) -> None:
        """Until the connection ends. Raises whatever went wrong meanwhile where messages are taken in."""
        self._broken = asyncio.get_running_loop().create_future()
        lost: asyncio.Future[bool] = asyncio.ensure_future(client.lost.wait())
        ends: list[asyncio.Future[Any]] = [lost, self._broken]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                self._broken.result()
        finally:
            lost.cancel()
            self._broken.cancel()

    async def _next(self) -> HubClient:
        """The next connection, whenever there is a hub."""
        told: bool | None = None
        # another session is shown, and nothing was lost, as long as there is a hub
        lost = self.chat.connected
        while True:
            # the mark is taken away once everything has ended
            stopped = bool(told) or self._paths.stopping.exists()
            if lost and stopped != told:
                told = stopped
                self.feed(inputs.HubLost(stopped=stopped))
                reached("tui.hub_lost", stopped=stopped)
            client = self._new_client()
            try:
                await client.connect(self._paths.socket)
                return client
            except (NoHub, OSError, TimeoutError):
                client.close()
            lost = True
            await asyncio.sleep(_REDIAL_S)

    def read_file(self, path: str) -> None:
        """Take a file for the next prompt."""
        self._spawn(self._read(path))

    async def search_files(self, query: str) -> bytes:
        """The answer of `_lembas/files/search`. Raises NoHub, RequestRefused, TimeoutError."""
        if self._client is None:
            raise NoHub(self.chat.banner)
        session = self.chat.session_id
        where = {"sessionId": session} if session else {"cwd": self.chat.cwd}
        return await self._client.request("_lembas/files/search", {**where, "query": query})

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        for task in list(self._tasks):
            task.cancel()

    # ── what comes ──────────────────────────────────────────────────────────────────────────────

    def _came_in(self, what: Message | asyncio.Future[bytes]) -> None:
        self._came.append(what)
        if not self._draining:
            self._draining = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        """Take in what came, for a while; then whoever types has a turn."""
        loop = asyncio.get_running_loop()
        try:
            is_all = self._take_in(loop.time() + _SLICE_S)
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits for it
            if self._broken is not None and not self._broken.done():
                self._broken.set_exception(error)
            return
        if is_all:
            self._draining = False
        else:
            loop.call_later(_SLICE_S, self._drain)

    def _take_in(self, until: float | None) -> bool:
        """Take in what came, until then at most; whether it is all."""
        loop = asyncio.get_running_loop()
        while self._came:
            what = self._came.popleft()
            if isinstance(what, asyncio.Future):
                self._answered(what)
            else:
                found = incoming.read(what)
                if found is not None:
                    self.feed(found)
            if until is not None and loop.time() > until:
                return not self._came
        return True

    def _answered(self, future: asyncio.Future[bytes]) -> None:
        about = self._asked.pop(future, None)
        if about is None:
            return
        error = future.exception()
        if error is None:
            self.feed(inputs.Answered(about, future.result()))
        elif isinstance(error, RequestRefused):
            self.feed(inputs.Refused(about, error.message, error.code, error.data))

    def feed(self, what: Input) -> None:
        """Tell the chat, and do what it wants."""
        for effect in self.chat.handle(what, self._clock()):
            self._perform(effect)
        self._screen.changed()

    # ── what is done ────────────────────────────────────────────────────────────────────────────

    def _perform(self, effect: Effect) -> None:
        match effect:
            case effects.Ask() | effects.Notify() | effects.Answer() | effects.NotAnswered():
                with suppress(NoHub):  # it is told of the end soon
                    self._send(effect)
            case effects.Look():
                self._spawn(self._look(effect))
            case effects.ReadFile(path):
                self._spawn(self._read(path))
            case effects.Reset():
                self._screen.another_session()
                if self._client is not None:
                    client, self._client = self._client, None
                    self._came.clear()
                    client.close()
            case effects.Open(what, typed):
                self._screen.show_list(what, typed)
            case effects.Run(arguments):
                self._screen.run_command(arguments)
            case effects.Copy(text):
                self._screen.copy_text(text)
            case effects.Compose(text):
                self._screen.compose_text(text)
            case effects.Quit():
                self._screen.leave()
            case _:
                assert_never(effect)

    def _send(
        self, effect: effects.Ask | effects.Notify | effects.Answer | effects.NotAnswered
    ) -> None:
        client = self._client
        if client is None:
            return
        match effect:
            case effects.Ask(about, method, params):
                self._asked[client.start(method, params)] = about
            case effects.Notify(method, params):
                client.notify(method, params)
            case effects.Answer(key, result):
                client.reply(Message(text=b"", id=key), result)
            case effects.NotAnswered(key, method):
                sentence = f"{method} is not answered here"
                client.refuse(Message(text=b"", id=key), METHOD_NOT_FOUND, sentence)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, what: effects.Look) -> None:
        try:
            match what.what:
                case "month":
                    await self._month()
                case "usage":
                    self.feed(inputs.Said(await self._ports.usage()))
                case "defaults":
                    found = await asyncio.to_thread(self._ports.defaults)
                    self.feed(inputs.DefaultsCame(found.model, found.mode, found.effort))
                case _:
                    said = await self._ports.change(what.key, what.value)
                    self.feed(inputs.Said(said))
        except LembasError as error:
            if what.what not in ("month", "defaults"):
                self.feed(inputs.Said(str(error), "error"))
        except OSError as error:
            self.feed(inputs.Said(says(error), "error"))

    async def _month(self) -> None:
        now = self._clock()
        if self._month_at and now - self._month_at < _MONTH_S:
            return
        self._month_at = now
        self.feed(inputs.MonthCame(await self._ports.month()))

    async def _read(self, path: str) -> None:
        """A file for the next prompt."""
        try:
            found = await asyncio.to_thread(_read_file, path, self.chat.cwd)
        except OSError as error:
            self.feed(inputs.Said(f"{path}: {error.strerror or error}; name another file", "error"))
            return
        if isinstance(found, str):
            self.feed(inputs.Said(found, "error"))
        else:
            self.feed(found)


def _read_file(name: str, cwd: str) -> inputs.FileRead | str:
    """The file, or why not."""
    import base64
    import mimetypes

    path = Path(cwd) / Path(name).expanduser()
    if not path.is_file():
        return f"{path} is no file; name another"
    if path.stat().st_size > MAX_FILE_BYTES:
        return (
            f"{path} has more than {MAX_FILE_BYTES // MB} MB; name its path in the prompt instead"
        )
    content = path.read_bytes()
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    data = base64.b64encode(content).decode()
    return inputs.FileRead(path.name, mime, data, len(content))
