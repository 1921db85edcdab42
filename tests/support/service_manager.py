"""A stand-in for a service manager: it listens on the hub's socket, hears sd_notify, and ends the main process alone.

As systemd with `Type=notify`, `KillMode=process` and `Restart=on-failure` does; nothing of the machine's own is touched.
"""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from lembasd.protocol.limits import LISTEN_BACKLOG
from tests.support.daemon import Install

#: what a loaded two-core machine needs for a start
SOON_S: Final = 20.0
#: between SIGABRT of a missed watchdog, or SIGTERM of a stop, and SIGKILL
KILL_S: Final = 1.0
_LAUNCH: Final = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = os.environ["SYSTEMD_EXEC_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], "run"])
"""
_RUN: Final = "import sys; from lembasd.cli.service import main; sys.exit(main())"


class ServiceManager:
    """Keeps one install's hub running from `start` to `stop`. `watchdog_s`: as WatchdogSec=.

    `prefix` is put before the main process' command.
    """

    def __init__(
        self, install: Install, *, watchdog_s: float = 0.0, prefix: Sequence[str] = ()
    ) -> None:
        self._install = install
        self._prefix = prefix
        self._watchdog_s = watchdog_s
        self._wanted = False
        self._news = asyncio.Event()
        #: of the main process: it is ready; it lives
        self._ready = asyncio.Event()
        self._alive = asyncio.Event()
        self._supervising: asyncio.Task[None] | None = None
        #: what was told, in order
        self.heard: list[str] = []
        self.main: subprocess.Popen[bytes] | None = None
        #: how each main process ended
        self.ends: list[int] = []

    async def __aenter__(self) -> Self:
        paths = self._install.paths
        paths.make()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(paths.socket))
        self._listener.listen(LISTEN_BACKLOG)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self._install.base / "n"))
        self._notify.setblocking(False)
        asyncio.get_running_loop().add_reader(self._notify.fileno(), self._hear)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
        asyncio.get_running_loop().remove_reader(self._notify.fileno())
        self._notify.close()
        self._listener.close()

    def _hear(self) -> None:
        try:
            while True:
                said = self._notify.recv(65536).decode().split("\n")
                self.heard += said
                if "READY=1" in said:
                    self._ready.set()
                if "WATCHDOG=1" in said:
                    self._alive.set()
        except BlockingIOError:
            self._news.set()

    async def told(self, text: str, within_s: float = SOON_S) -> None:
        """Wait until this is told, and forget all up to it."""
        try:
            async with asyncio.timeout(within_s):
                while text not in self.heard:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{text} was not told; heard: {self.heard}") from None
        del self.heard[: self.heard.index(text) + 1]

    def has_callers(self) -> bool:
        """Whether somebody has connected whom no hub has accepted: a manager would start one for them."""
        return bool(select.select([self._listener], [], [], 0)[0])

    async def start(self) -> int:
        """Start the service, wait until it is ready; the pid of its main process."""
        self._wanted = True
        self._spawn()
        self._supervising = asyncio.create_task(self._supervise())
        await self.told("READY=1")
        assert self.main is not None
        return self.main.pid

    async def stop(self) -> None:
        """`systemctl stop`: SIGTERM to the main process, SIGKILL when it stays, and no restart."""
        self._wanted = False
        if self.main is not None and self.main.poll() is None:
            await self._end(signal.SIGTERM)
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.wait([self._supervising])

    def _spawn(self) -> None:
        self._ready.clear()
        handle = self._listener.fileno()
        environment: dict[str, Any] = {
            **self._install.environment,
            "LISTEN_FDS": "1",
            "NOTIFY_SOCKET": str(self._install.base / "n"),
        }
        if self._watchdog_s:
            environment["WATCHDOG_USEC"] = str(int(self._watchdog_s * 1_000_000))
        with (self._install.base / "out").open("ab") as log:
            about = os.fstat(log.fileno())
            environment["JOURNAL_STREAM"] = f"{about.st_dev}:{about.st_ino}"
            self.main = subprocess.Popen(
                [*self._prefix, sys.executable, "-c", _LAUNCH, str(handle), _RUN],
                env=environment,
                pass_fds=(handle,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def _supervise(self) -> None:
        """Restart on failure; abort a main process that is ready and does not say that it is alive."""
        while self.main is not None:
            watching = asyncio.create_task(self._watch())
            self.ends.append(await asyncio.to_thread(self.main.wait))
            watching.cancel()
            if not self._wanted or self.ends[-1] == 0:
                return
            self._spawn()

    async def _watch(self) -> None:
        if not self._watchdog_s:
            return
        await self._ready.wait()
        while True:
            self._alive.clear()
            try:
                await asyncio.wait_for(self._alive.wait(), self._watchdog_s)
            except TimeoutError:
                await self._end(signal.SIGABRT)
                return

    async def _end(self, number: signal.Signals) -> None:
        main = self.main
        assert main is not None
        os.kill(main.pid, number)
        try:
            await asyncio.to_thread(main.wait, KILL_S if number is signal.SIGABRT else SOON_S)
        except subprocess.TimeoutExpired:
            main.kill()
            await asyncio.to_thread(main.wait)
