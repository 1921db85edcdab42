"""A scratch install with a real hub. Everything that was started in it is ended when it is left."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import psutil

from lembasd.device import credentials
from lembasd.device.credentials import Credentials
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from tests.support.milestones import Milestones

_SERVICE: Final = "import sys; from lembasd.cli.service import main; sys.exit(main())"
#: how long a killed process may take to be gone
GONE_S: Final = 10.0


class Install:
    """One LEMBAS_HOME in a short temporary directory, logged in to `server`; its link is off unless `linked`."""

    def __init__(self, server: str = "http://127.0.0.1:9", *, linked: bool = False) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="lb", dir="/tmp"))
        home = self.base / "h"
        self.project = self.base / "p"
        self.project.mkdir()
        self.paths = Paths(config=home / "config", state=home / "state", run=home / "run")
        self.paths.make()
        remote = f"remote:\n  enabled: true\n  roots: ['{self.base}']\n  require_trust: false\n"
        self.paths.config_file.write_text("model: demo\n" + (remote if linked else ""))
        self.log_in(server)
        self.milestones = Milestones(self.base / "m")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LEMBAS")}
        self.environment = {
            **inherited,
            **self.milestones.environment,
            "LEMBAS_HOME": str(home),
        }
        self._children: list[subprocess.Popen[bytes]] = []

    async def __aenter__(self) -> Self:
        await self.milestones.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and (self.base / "out").exists():
            sys.stderr.write((self.base / "out").read_text(errors="replace")[-4000:])
        await asyncio.to_thread(self._end_all)
        await self.milestones.__aexit__(kind, error, traceback)
        shutil.rmtree(self.base)

    def log_in(self, server: str) -> None:
        """Write a login to `server`."""
        login = Credentials(server=server, token="benchmark", default_model="demo")  # noqa: S106
        credentials.store(self.paths.credentials_file, login)

    def spawn(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Run this interpreter with `arguments` in the install's environment."""
        with (self.base / "out").open("ab") as out:
            options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, **options}
            child = subprocess.Popen(
                [sys.executable, *arguments],
                env=self.environment,
                start_new_session=True,
                **options,
            )
        self._children.append(child)
        return child

    async def start_hub(self) -> subprocess.Popen[bytes]:
        """Start a hub and wait until it listens and can fork workers."""
        hub = self.spawn("-c", _SERVICE, "run")
        await self.milestones.wait("hub.listening", pid=hub.pid)
        await self.milestones.wait("zygote.ready", kind="worker", parent=hub.pid)
        await self.milestones.wait("zygote.ready", kind="pty", parent=hub.pid)
        return hub

    async def client(self) -> HubClient:
        """A local client that said `initialize`."""
        client = HubClient()
        await client.connect(self.paths.socket)
        lembas = {"clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}}}
        await client.request("initialize", {"protocolVersion": 1, **lembas})
        return client

    async def new_session(self, client: HubClient) -> str:
        text = await client.request("session/new", self.new_session_params())
        session: str = msgspec.json.decode(text)["sessionId"]
        return session

    def new_session_params(self) -> dict[str, Any]:
        return {"cwd": str(self.project), "mcpServers": []}

    def _end_all(self) -> None:
        end = time.monotonic() + GONE_S
        while left := self._processes():
            for process in left:
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            for child in self._children:
                child.poll()
            psutil.wait_procs(left, 0.2)
            if time.monotonic() > end:
                raise RuntimeError(f"still running: {left}")
        for child in self._children:
            child.wait(GONE_S)

    def _processes(self) -> list[psutil.Process]:
        home = self.environment["LEMBAS_HOME"]
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                dead = process.status() == psutil.STATUS_ZOMBIE
                if not dead and process.environ().get("LEMBAS_HOME") == home:
                    found.append(process)
        return found
