"""A real pty process with a real shell of a person's, against a hub's socket."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from lembasd.device.paths import Paths
from lembasd.protocol.control import Remote, Settings
from lembasd.protocol.spawn import Assignment
from tests.support.milestones import Milestones
from tests.support.terminal_hub import TerminalHub

TERMINAL: Final = "term_000000000000"
#: be the pty process as a child of a zygote is: its own session, signals as a new process has them
_RUN: Final = """
import sys, msgspec
from msgspec.structs import replace
from lembasd.device.person import find_person, login_shell
from lembasd.protocol.spawn import Assignment
from lembasd.pty.main import main

def person(variables):
    shell = {"shell": login_shell(sys.argv[2])} if sys.argv[2] else {}
    return replace(find_person(variables), **shell)

sys.exit(main(msgspec.json.decode(sys.argv[1], type=Assignment), person))
"""
OPEN: Final = "_lembas/terminal/open"
INPUT: Final = "_lembas/terminal/input"
EXIT: Final = "_lembas/terminal/exit"


class Scene:
    """A pty process and its hub. `base` is the person's home, `shell` the path of theirs ("": that of passwd)."""

    def __init__(self, base: Path, shell: str = "") -> None:
        self.base = base
        self.shell = shell
        #: of the service, and so of the shell where they are not its own
        self.variables: dict[str, str] = {}
        self.paths = Paths(config=base / "config", state=base / "state", run=base / "run")
        self.paths.make()
        self.project = base / "p"
        self.project.mkdir()
        self.milestones = Milestones(base / "m")
        self.hub = TerminalHub(self.paths)
        self.process: subprocess.Popen[bytes] | None = None

    def file(self, name: str, text: str) -> None:
        """Write a file below the person's home."""
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    async def start(self, *, link: bool = False) -> None:
        self.process = self._spawn(link)
        await self.hub.until(lambda: bool(self.hub.hellos))

    def _spawn(self, link: bool) -> "subprocess.Popen[bytes]":
        assignment = Assignment(spawn=5, role="pty", channel=TERMINAL, link=link)
        # a person's own places of files are not the subject
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "ZDOTDIR"))}
        environment = {
            **inherited,
            **self.milestones.environment,
            "LEMBAS_HOME": str(self.base),
            "NOTIFY_SOCKET": "/run/none",
            "HOME": str(self.base),
            **self.variables,
        }
        return subprocess.Popen(
            [sys.executable, "-c", _RUN, msgspec.json.encode(assignment).decode(), self.shell],
            env=environment,
            start_new_session=True,
        )

    async def opened(self, *, integration: bool = True, **params: Any) -> dict[str, Any]:
        """A process with a shell, and client 1 attached to it."""
        await self.start()
        self.hub.settings(Settings(remote=Remote(terminal_integration=integration)))
        self.hub.attach(1)
        answer = await self.hub.ask(OPEN, {"cwd": str(self.project), **params})
        assert not answer.error, answer.error
        value: dict[str, Any] = msgspec.json.decode(answer.result)
        return value

    def type(self, text: str) -> None:
        self.hub.notify(INPUT, {"terminalId": TERMINAL, "data": text.encode()})

    async def shows(self, text: bytes, *, to: int = 1) -> None:
        await self.hub.until(lambda: text in self.hub.output(to=to))

    async def exit(self) -> int | None:
        await self.hub.until(lambda: bool(self.hub.said(EXIT)))
        ((_, message),) = self.hub.said(EXIT)
        code: int | None = msgspec.json.decode(message.params)["code"]
        return code

    async def ended(self) -> int:
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, 15)

    async def until_child(self, shell: int, name: str) -> psutil.Process:
        """The shell's child of this name, as soon as it is there."""
        async with asyncio.timeout(10):
            while True:
                for child in psutil.Process(shell).children(recursive=True):
                    with suppress(
                        psutil.NoSuchProcess
                    ):  # the shell's startup has children of its own
                        if child.name() == name:
                            return child
                await asyncio.sleep(0)

    async def aclose(self) -> None:
        """End the process and all that it started."""
        if self.process is not None:
            family = []
            with suppress(psutil.NoSuchProcess):
                family = psutil.Process(self.process.pid).children(recursive=True)
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self.process.kill()
            await self.ended()
