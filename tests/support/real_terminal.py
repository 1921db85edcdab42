"""A terminal with a person at it: a PTY, an emulator that shows what a person sees, and keys."""

import asyncio
import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Callable
from typing import Any, Self

import pyte

from tests.support.daemon import Install

_PERSON = "import sys; from lembasd.cli.person import main; sys.exit(main())"
_SHELL = "import os; os.execlp('bash', 'bash', '--norc', '-i')"
#: what a loaded machine needs to start Python and a shell
TIMEOUT_S = 30.0


class RealTerminal:
    """`async with` it; `run` starts one `lembas` command in it."""

    def __init__(self, install: Install, cols: int = 80, rows: int = 24) -> None:
        self._install = install
        self.screen = pyte.Screen(cols, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.output = bytearray()
        self.reading = True
        self._news = asyncio.Event()
        self._master, self._slave = os.openpty()
        os.set_blocking(self._master, False)
        self._set_size(cols, rows)
        self.before = termios.tcgetattr(self._slave)
        self.child: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self.read(on=True)
        return self

    async def __aexit__(self, *exc: object) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        os.close(self._slave)

    def run(self, *args: str) -> subprocess.Popen[bytes]:
        return self._started(_PERSON, *args)

    def run_shell(self) -> subprocess.Popen[bytes]:
        """A shell with job control, to run commands in."""
        return self._started(_SHELL)

    def _started(self, code: str, *args: str) -> subprocess.Popen[bytes]:
        self.child = self._install.spawn(
            code,
            *args,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            preexec_fn=_take_terminal,
        )
        return self.child

    def read(self, *, on: bool) -> None:
        """Whether what is written is taken; a terminal that hangs takes nothing."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        if on:
            loop.add_reader(self._master, self._take)

    def _take(self) -> None:
        data = os.read(self._master, 65536)
        self.output += data
        self._stream.feed(data)
        self._news.set()

    def type(self, keys: str | bytes) -> None:
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, cols: int, rows: int) -> None:
        self.screen.resize(rows, cols)
        self._set_size(cols, rows)

    def _set_size(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    async def shows(self, text: str) -> None:
        """Wait until the screen has `text` on it."""
        await self._until(lambda: text in "\n".join(self.screen.display), text)

    async def _until(self, is_shown: Callable[[], bool], text: str) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not is_shown():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            shown = "\n".join(line.rstrip() for line in self.screen.display)
            raise AssertionError(f"{text!r} was never shown, but:\n{shown}") from None

    async def press_until(self, key: str, text: str) -> None:
        """Press a key, again if need be, until `text` is the last line that the screen has on it."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                self.type(key)
                try:
                    async with asyncio.timeout(2.0):
                        while not self._last_line().startswith(text):
                            self._news.clear()
                            await self._news.wait()
                        return
                except TimeoutError:
                    continue

    def _last_line(self) -> str:
        return next(filter(None, (line.rstrip() for line in reversed(self.screen.display))), "")

    async def titled(self, text: str) -> None:
        """Wait until the window's title has `text` in it."""
        async with asyncio.timeout(TIMEOUT_S):
            while text not in self.screen.title:
                self._news.clear()
                await self._news.wait()

    async def code(self) -> int:
        """The command's exit code."""
        assert self.child is not None
        return await asyncio.to_thread(self.child.wait, TIMEOUT_S)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    @property
    def is_raw(self) -> bool:
        return not self.modes()[3] & termios.ICANON


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
