"""A terminal of tmux' with a person at it: what is drawn is read as text, keys are sent by their names."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.daemon import Install

IS_THERE: Final = shutil.which("tmux") is not None
#: what a loaded machine needs to start Python and to draw
TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.05
_PERSON: Final = f"{sys.executable} -m lembasd.cli.person"


class Tmux:
    """A server of its own, with one window; it ends with all that runs in it. `async with` it."""

    def __init__(self, install: Install, cols: int = 80, rows: int = 24) -> None:
        self._install = install
        self._socket = install.base / "tmux"
        self._size = (cols, rows)

    async def __aenter__(self) -> Self:
        cols, rows = self._size
        rc = self._install.base / "bashrc"
        rc.write_text("PS1='ready> '\n")
        await self._tmux(
            *(
                "new-session",
                "-d",
                "-x",
                str(cols),
                "-y",
                str(rows),
                "-c",
                str(self._install.project),
            ),
            f"bash --rcfile {rc} -i",
        )
        await self._tmux("set-option", "-g", "remain-on-exit", "on")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._tmux("kill-server")

    async def _tmux(self, *arguments: str) -> str:
        environment = {
            **self._install.environment,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        # tmux in tmux, and what the test itself was started with
        for name in ("TMUX", "NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        command = ("tmux", "-S", str(self._socket), "-f", os.devnull, *arguments)
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, timeout=TIMEOUT_S
        )
        return done.stdout.decode(errors="replace")

    async def lembas(self, *arguments: str, before: str = "") -> None:
        """Type the command in the shell."""
        line = " ".join([before, _PERSON, *arguments]).strip()
        await self.type(f"clear; {line}")
        await self.keys("Enter")

    async def type(self, text: str) -> None:
        await self._tmux("send-keys", "-l", text)

    async def keys(self, *names: str) -> None:
        await self._tmux("send-keys", *names)

    async def screen(self, *, escapes: bool = False) -> str:
        return await self._tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    async def resize(self, cols: int, rows: int) -> None:
        await self._tmux("resize-window", "-x", str(cols), "-y", str(rows))

    async def shows(self, *texts: str) -> str:
        """Wait until all of it is on the screen; the screen."""
        screen = ""
        for _ in range(int(TIMEOUT_S / _LOOK_S)):
            screen = await self.screen()
            if all(one in screen for one in texts):
                return screen
            await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"{texts} was never shown, but:\n{screen}")

    async def hides(self, text: str) -> None:
        """Wait until it is not on the screen any more."""
        for _ in range(int(TIMEOUT_S / _LOOK_S)):
            if text not in await self.screen():
                return
            await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"{text} stayed on the screen")

    async def press_until(self, key: str, *texts: str) -> str:
        """Press a key until all of it is on the screen: a key that comes as soon as its card is none of a person's."""
        for _ in range(int(TIMEOUT_S)):
            await self.keys(key)
            for _ in range(int(1 / _LOOK_S)):
                screen = await self.screen()
                if all(one in screen for one in texts):
                    return screen
                await asyncio.sleep(_LOOK_S)
        raise AssertionError(f"{texts} was never shown, but:\n{await self.screen()}")
