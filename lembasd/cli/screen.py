"""The person's own terminal: raw while a terminal of the hub's is in it, and given back as it was."""

import asyncio
import os
import termios
import tty
from collections import deque
from collections.abc import Callable
from typing import Final

from lembasd.cli.core.leaving import undo
from lembasd.protocol.errors import EXIT_USAGE, UsageError
from lembasd.protocol.limits import KIB, MIB
from lembasd.pty.core import escapes
from lembasd.pty.core.modes import Modes

#: one read of what is typed or pasted
READ_BYTES: Final = 64 * KIB
#: output that waits for the terminal: what a hub sends unacknowledged is far less, so that more is a broken hub
MAX_WAITING_BYTES: Final = 16 * MIB
#: after the last output, how long the terminal has to take it
DRAIN_S: Final = 5.0
#: nothing can be shown in a pipe: a shell's own command line is what to use there
NO_TERMINAL: Final = (
    "this needs a terminal as standard input and output; in a script run the command itself"
)
_STDIN: Final = 0
_STDOUT: Final = 1
#: the title is kept by the terminal, and given back
_KEEP_TITLE: Final = b"\x1b[22;2t"
_GIVE_TITLE: Final = b"\x1b[23;2t"


class Screen:
    """`typed` is told what the person types, `written` how many bytes of the output have reached the terminal.

    Writing never waits: the terminal is opened anew, so that nobody who shares standard output meets a descriptor that
    does not block.
    """

    def __init__(self, typed: Callable[[bytes], None], written: Callable[[int], None]) -> None:
        """Raises UsageError when standard input and output are no terminal."""
        if not (os.isatty(_STDIN) and os.isatty(_STDOUT)):
            raise UsageError(NO_TERMINAL, EXIT_USAGE)
        self._typed = typed
        self._written = written
        self._before = termios.tcgetattr(_STDIN)
        self._out = os.open(os.ttyname(_STDOUT), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        #: what to write, and how much of it is output
        self._waiting: deque[tuple[memoryview, bool]] = deque()
        self._waiting_bytes = 0
        self._modes = Modes()
        self._titled = False
        self._entered = False
        #: the unfinished sequence or character that the output ends with now
        self._rest = b""
        #: a title that waits for its end
        self._later: str | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._loop = asyncio.get_running_loop()

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        size = os.get_terminal_size(self._out)
        return size.columns or 80, size.lines or 24

    def enter(self) -> None:
        """Raw from now on, and what is typed is read."""
        self.make_raw()
        self._entered = True
        self._loop.add_reader(_STDIN, self._read)

    @staticmethod
    def make_raw() -> None:
        """Raw again: whoever stopped this process may have changed it."""
        tty.setraw(_STDIN, termios.TCSANOW)

    def leave(self) -> None:
        """As it was before: whatever a program in it has set. What waits to be written is dropped."""
        if not self._entered:
            return
        self._entered = False
        self._loop.remove_reader(_STDIN)
        self._loop.remove_writer(self._out)
        self._drop()
        # whatever was cut off is over
        self._rest = b""
        self.title("")
        self._write_now(undo(self._modes))
        self._modes = Modes()
        self._drop()
        try:
            termios.tcsetattr(_STDIN, termios.TCSANOW, self._before)
        except termios.error:
            pass  # the terminal is gone, and nobody is left to miss it

    def close(self) -> None:
        os.close(self._out)

    async def drained(self) -> None:
        """Wait until all is written, DRAIN_S at most."""
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._empty.wait()
        except TimeoutError:
            pass  # nobody looks at it

    def show(self, data: bytes) -> None:
        """Write output, as soon as the terminal takes it. Raises UsageError beyond MAX_WAITING_BYTES."""
        if self._waiting_bytes > MAX_WAITING_BYTES:
            raise UsageError("the hub sends more than it may; update it, then attach again")
        self._modes.feed(data)
        self._put(data, output=True)
        seen = self._rest + data
        rest = escapes.unfinished(seen)
        self._rest = escapes.opening(seen[len(seen) - rest :]) if rest else b""
        if self._later is not None:
            self.title(self._later)

    def title(self, text: str) -> None:
        """Say something where the output is not: in the window's title; "" gives the title back.

        In the middle of a character or sequence of the output it waits for the rest of it.
        """
        self._later = text if self._rest else None
        if self._rest:
            return
        if text:
            kept = b"" if self._titled else _KEEP_TITLE
            self._put(b"%b\x1b]2;%b\x07" % (kept, text.encode()), output=False)
        elif self._titled:
            self._put(_GIVE_TITLE, output=False)
        self._titled = bool(text)

    def _put(self, data: bytes, *, output: bool) -> None:
        if not data:
            return
        first = not self._waiting
        self._waiting.append((memoryview(data), output))
        self._waiting_bytes += len(data)
        self._empty.clear()
        if first:
            self._flush()

    def _flush(self) -> None:
        while self._waiting:
            data, output = self._waiting[0]
            count = self._write_now(data)
            if count < 0:
                self._loop.add_writer(self._out, self._flush)
                return
            self._waiting_bytes -= count
            if count == len(data):
                self._waiting.popleft()
            else:
                self._waiting[0] = data[count:], output
            if output:
                self._written(count)
        self._loop.remove_writer(self._out)
        self._empty.set()

    def _write_now(self, data: bytes | memoryview) -> int:
        """How many bytes the terminal took; -1: none now. One that is gone takes everything."""
        try:
            return os.write(self._out, data)
        except BlockingIOError:
            return -1
        except OSError:
            return len(data)

    def _drop(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        self._empty.set()

    def _read(self) -> None:
        try:
            data = os.read(_STDIN, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(_STDIN)
        self._typed(data)
