"""`lembas` in this process: its screen as text, keys, a clock that a test moves, and a service that is played."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from textual.events import Key
from textual.pilot import Pilot

from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.protocol.errors import LembasError, UsageError
from lembasd.tui.app import LembasApp
from lembasd.tui.core.chat import Chat
from lembasd.tui.ports import Defaults, Model, Setting
from lembasd.tui.widgets.composer import Composer
from tests.support.played_service import SESSION, PlayedService

TIMEOUT_S: Final = 10.0
GOLDEN: Final = Path(__file__).parents[1] / "golden" / "screens"
#: set, the screens are written anew; look at what changed before it is committed
WRITE: Final = "LEMBASD_WRITE_GOLDEN"


class PlayedPorts:
    """An account with a month, two models and three settings."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.said: list[str] = []
        self.changed: list[tuple[str, str]] = []
        self.commands: list[tuple[str, ...]] = []
        self.failure: LembasError | None = None

    async def connect(self, client: HubClient, say: Callable[[str], None]) -> None:
        if self.failure is not None:
            raise self.failure
        for one in self.said:
            say(one)
        await client.connect(self._paths.socket)

    async def usage(self) -> str:
        return "this month   1,200 tokens in, 30 out\ncost         €2.00 · $0.75"

    async def month(self) -> str:
        return "€2.00 · $0.75"

    async def models(self) -> list[Model]:
        return [Model("fast", "32k tokens", ("low", "high")), Model("scripted", "", ("off", "on"))]

    async def settings(self) -> list[Setting]:
        return [Setting("personality", "pirate", "account"), Setting("mode", "manual", "device")]

    async def change(self, key: str, value: str) -> str:
        if key == "nothing":
            raise UsageError("nothing is not a setting")
        self.changed.append((key, value))
        return f"{key} is set"

    def defaults(self) -> Defaults:
        return Defaults("scripted", "manual", "default")

    def command(self, arguments: tuple[str, ...]) -> int:
        self.commands.append(arguments)
        return 0


class _Watched(LembasApp):
    """Tells when it has drawn."""

    drawn: asyncio.Event
    ended: asyncio.Event

    def exit(self, *args: Any, **options: Any) -> None:
        self.ended.set()
        super().exit(*args, **options)

    def post_display_hook(self) -> None:
        self.drawn.set()


class ChatScreen:
    """One `lembas`, as a person sees it."""

    def __init__(
        self, app: _Watched, pilot: Pilot[None], ports: PlayedPorts, clock: "Clock"
    ) -> None:
        self.app = app
        self.pilot = pilot
        self.ports = ports
        self.clock = clock

    @property
    def lines(self) -> list[str]:
        """The screen, a line each, without the spaces at the end."""
        strips = self.app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def shows(self, *texts: str) -> None:
        """Wait until all of it is on the screen."""
        await self.until(lambda: all(one in self.text for one in texts), " and ".join(texts))

    async def shows_no_more(self, text: str) -> None:
        await self.until(lambda: text not in self.text, f"not {text}")

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not is_so():
                    self.app.drawn.clear()
                    await self.app.drawn.wait()
        except TimeoutError:
            raise AssertionError(f"{what!r} was never shown, but:\n{self.text}") from None

    async def ended(self) -> None:
        """Wait until the program has left."""
        async with asyncio.timeout(TIMEOUT_S):
            await self.app.ended.wait()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Type a text, letter by letter."""
        for one in text:
            new_line = one == "\n"
            self.app.post_message(Key("ctrl+j" if new_line else one, None if new_line else one))
        if "\n" not in text:
            composer = self.app.query_one(Composer)
            await self.until(lambda: composer.text.endswith(text), text)

    async def is_as(self, name: str) -> None:
        """Wait until the screen is as the one that is kept."""
        path = GOLDEN / f"{name}.txt"
        if os.environ.get(WRITE):
            await self.pilot.pause()
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.text + "\n")
        kept = path.read_text()
        await self.until(lambda: self.text + "\n" == kept, name)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def chat_screen(
    paths: Paths,
    cwd: Path,
    session: str = "",
    *,
    size: tuple[int, int] = (80, 24),
    ports: PlayedPorts | None = None,
) -> AsyncIterator[ChatScreen]:
    """A running `lembas`. With `session` it goes on with that one."""
    clock = Clock()
    ports = ports or PlayedPorts(paths)
    app = _Watched(paths, ports, Chat(str(cwd), session), os.urandom, clock)
    app.drawn, app.ended = asyncio.Event(), asyncio.Event()
    async with app.run_test(size=size) as pilot:
        yield ChatScreen(app, pilot, ports, clock)


@asynccontextmanager
async def joined(
    service: PlayedService, paths: Paths, cwd: Path, **how: Any
) -> AsyncIterator[ChatScreen]:
    """A `lembas` that has joined the played session, whose snapshot the service says."""
    service.snapshot = {**service.snapshot, "root": str(cwd)}
    async with chat_screen(paths, cwd, SESSION, **how) as screen:
        await service.next("_hub/attach")
        await screen.shows("ready")
        yield screen
