"""A terminal of the hub's in the person's own, through the death of hubs, until the shell ends or the person leaves it."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.cli import running, starting
from lembasd.cli.acknowledging import Acknowledging
from lembasd.cli.core.detach_keys import Asked, DetachKeys, shown
from lembasd.cli.core.place import Place
from lembasd.cli.screen import Screen
from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.acp import ACP_VERSION
from lembasd.protocol.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    RequestRefused,
    UsageError,
)
from lembasd.protocol.jsonrpc import Message
from lembasd.protocol.lembas import (
    LINK_PROTOCOL,
    TerminalAckParams,
    TerminalAttachParams,
    TerminalAttachResult,
    TerminalExit,
    TerminalInputParams,
    TerminalOpenParams,
    TerminalOpenResult,
    TerminalOutput,
    TerminalResizeParams,
)
from lembasd.protocol.limits import KIB

#: how long the next hub is given to adopt the terminal; then it has ended meanwhile
ADOPTED_S: Final = 15.0
_REDIAL_S: Final = 0.1
#: typed while there is no hub and given to the terminal then; more is dropped
MAX_TYPED_AHEAD_BYTES: Final = 64 * KIB
#: the signals that end the command as they would any other, its terminal given back
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)

#: for the hub: output as it is
_INITIALIZE: Final = {
    "protocolVersion": ACP_VERSION,
    "clientCapabilities": {
        "_meta": {"lembas": {"protocol": LINK_PROTOCOL, "terminal_frames": True}}
    },
}

_output: Final = msgspec.json.Decoder(TerminalOutput)
_exit: Final = msgspec.json.Decoder(TerminalExit)
_opened: Final = msgspec.json.Decoder(TerminalOpenResult)
_attached: Final = msgspec.json.Decoder(TerminalAttachResult)


class End(Struct, frozen=True):
    """How it ended: the command's exit code, and one line for the person."""

    code: int
    said: str


class AttachedTerminal:
    """One use of a terminal. `cwd`: open it there; `terminal`: look at one that is open."""

    def __init__(
        self, paths: Paths, keys: bytes, *, cwd: Path | None = None, terminal: str = ""
    ) -> None:
        """Raises UsageError where there is no terminal to show it in."""
        self._paths = paths
        self._keys = keys
        self._cwd = cwd
        self._terminal = terminal
        self._detach = DetachKeys(keys)
        self._place = Place()
        self._client = HubClient(self._message, self._output)
        #: the hub gives output as it is, and takes keys so
        self._takes_keys = False
        self._shown = Acknowledging(lambda: self._place, self._acknowledge)
        self._screen = Screen(self._typed, self._shown.written)
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._suspend = asyncio.Event()
        #: the terminal takes what is typed
        self._attached = False
        self._typed_ahead = bytearray()

    async def run(self) -> End:
        """Until the shell ends, the person detaches, or a signal ends the command. The terminal is given back.

        Raises UsageError, RequestRefused when it does not even begin.
        """
        try:
            await starting.connected(self._paths, self._client)
            await self._client.request("initialize", _INITIALIZE)
            running.say_error(self._keys_told("leaves this terminal, and it goes on"))
            self._handle_signals()
            self._screen.enter()
            await self._begin()
            self._say_keys()
            reached("term.attached", terminal_id=self._terminal)
            return await self._follow()
        finally:
            self._client.close()
            self._screen.leave()
            self._screen.close()
            self._shown.close()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGCONT, self._continued)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend.set)
        for number in _ENDING:
            loop.add_signal_handler(number, self._finish, _ended_by(number))

    async def _begin(self) -> None:
        """Raises RequestRefused, UsageError."""
        try:
            if self._terminal:
                await self._attach(None)
                return
            cols, rows = self._screen.size()
            params = TerminalOpenParams(cwd=str(self._cwd), cols=cols, rows=rows)
            answer = await self._client.request("_lembas/terminal/open", params)
            self._terminal = _opened.decode(answer).terminalId
            self._type_ahead()
        except (NoHub, TimeoutError) as error:
            raise UsageError(f"the hub did not open the terminal ({error}); try again") from error

    async def _follow(self) -> End:
        while not self._ended.done():
            await self._until_news()
            if self._ended.done():
                break
            self._attached = False
            if self._suspend.is_set():
                await self._suspended()
            else:
                reached("term.hub_lost", terminal_id=self._terminal)
                waits = "lembasd is gone; this waits for its return"
                self._screen.title(
                    f"{waits} · {self._keys_told('leaves')}" if self._keys else waits
                )
                await self._next_hub(self._place.end)
        end = self._ended.result()
        if end.code != EXIT_INTERRUPTED:
            await self._screen.drained()
        return end

    def _keys_told(self, what: str) -> str:
        if not self._keys:
            return "no keys leave this terminal; end its shell"
        return f"{shown(self._keys)} {what}"

    def _say_keys(self) -> None:
        """A redraw begins with an empty screen, so that a line would be gone with it."""
        self._screen.title(f"{self._terminal} · {self._keys_told('leaves')}")

    async def _until_news(self) -> None:
        """Wait for the end, the hub's, or a suspension."""
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._client.lost.wait()),
            asyncio.ensure_future(self._suspend.wait()),
        ]
        await asyncio.wait([self._ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def _finish(self, end: End) -> None:
        if not self._ended.done():
            self._ended.set_result(end)

    # ── the hub ─────────────────────────────────────────────────────────────────────────────────

    async def _attach(self, since: int | None) -> None:
        """Raises RequestRefused, NoHub."""
        params = TerminalAttachParams(terminalId=self._terminal, offset=since)
        answer = _attached.decode(await self._client.request("_lembas/terminal/attach", params))
        if self._place.end is None:
            self._place.begins(answer.offset)
        self._resized()
        self._type_ahead()

    async def _next_hub(self, since: int | None) -> None:
        """Wait for a hub and go on in it; a person who has enough of waiting detaches."""
        loop = asyncio.get_running_loop()
        give_up: float | None = None
        while not self._ended.done():
            if self._paths.stopping.exists():
                return self._finish(End(EXIT_FAILED, "lembasd was stopped, and its terminals"))
            client = HubClient(self._message, self._output)
            self._takes_keys = False
            try:
                await client.connect(self._paths.socket)
                give_up = give_up or loop.time() + ADOPTED_S
                await client.request("initialize", _INITIALIZE)
                self._client = client
                await self._attach(since)
                self._say_keys()
                reached("term.reattached", terminal_id=self._terminal)
                return None
            except (NoHub, OSError, TimeoutError):
                give_up = None
            except RequestRefused:
                # the hub is new, and the terminal has yet to find it
                if give_up is not None and loop.time() > give_up:
                    said = f"{self._terminal} ended while lembasd was gone"
                    return self._finish(End(EXIT_FAILED, said))
            client.close()
            await asyncio.wait([self._ended], timeout=_REDIAL_S)
        return None

    def _message(self, message: Message) -> None:
        try:
            if message.method == "_lembas/terminal/output":
                output = _output.decode(message.params)
                place = output.meta.lembas.offset if output.meta is not None else None
                self._show(self._place.end or 0 if place is None else place, output.data)
            elif message.method == "_lembas/terminal/exit":
                self._exited(_exit.decode(message.params).code)
        except (msgspec.MsgspecError, UsageError) as error:
            self._finish(End(EXIT_FAILED, f"the hub cannot be understood ({error}); update it"))

    def _output(self, _terminal: str, offset: int, data: bytes) -> None:
        self._takes_keys = True
        self._show(offset, data)

    def _show(self, offset: int, data: bytes) -> None:
        self._place.came(offset, len(data))
        self._screen.show(data)

    def _exited(self, code: int | None) -> None:
        if code is None:
            self._finish(End(EXIT_FAILED, "the terminal's process was ended"))
        else:
            self._finish(End(code, ""))

    def _tell(self, what: str, params: Struct) -> None:
        try:
            self._client.notify(f"_lembas/terminal/{what}", params)
        except NoHub:
            pass  # the hub is gone: the next is told the size, and the rest means nothing to it

    # ── the person ──────────────────────────────────────────────────────────────────────────────

    def _typed(self, data: bytes) -> None:
        if not data:
            return self._finish(End(EXIT_INTERRUPTED, f"the terminal is gone; {self._back()}"))
        for one in self._detach.feed(data):
            if one is Asked.DETACH:
                return self._finish(End(EXIT_DONE, f"detached; {self._back()}"))
            if one is Asked.SUSPEND:
                self._suspend.set()
            elif self._attached:
                self._type(one)
            elif len(self._typed_ahead) + len(one) <= MAX_TYPED_AHEAD_BYTES:
                self._typed_ahead += one
        return None

    def _type_ahead(self) -> None:
        """The terminal is there: give it what was typed meanwhile."""
        self._attached = True
        if self._typed_ahead:
            self._type(bytes(self._typed_ahead))
            self._typed_ahead.clear()

    def _type(self, keys: bytes) -> None:
        try:
            if self._takes_keys:
                self._client.type(self._terminal, keys)
            else:
                self._tell("input", TerminalInputParams(self._terminal, keys))
        except NoHub:
            pass  # the hub is gone, and the keys with it

    def _back(self) -> str:
        return f"`lembas term attach {self._terminal}` goes on"

    def _acknowledge(self, offset: int) -> None:
        if self._terminal:
            self._tell("ack", TerminalAckParams(self._terminal, offset))

    def _resized(self) -> None:
        cols, rows = self._screen.size()
        if self._terminal:
            self._tell("resize", TerminalResizeParams(self._terminal, cols, rows))

    async def _suspended(self) -> None:
        """Stop as any program does, detached meanwhile, so that the shell runs on; then draw all anew."""
        self._suspend.clear()
        self._client.close()
        self._screen.leave()
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        # goes on here after SIGCONT
        loop.add_signal_handler(signal.SIGTSTP, self._suspend.set)
        self._place = Place()
        self._screen.enter()
        await self._next_hub(None)

    def _continued(self) -> None:
        """After a stop that nobody told of."""
        self._screen.make_raw()
        self._resized()


def _ended_by(number: int) -> End:
    code = EXIT_INTERRUPTED if number == signal.SIGINT else 128 + number
    return End(code, f"ended by {signal.Signals(number).name}")
