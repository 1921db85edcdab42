"""A scratch install with real processes: hub, instance, commands. Everything is ended when it is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import psutil

from lembasd.device import credentials
from lembasd.device.credentials import Credentials
from lembasd.device.milestones import FREEZE
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.protocol import jsonrpc
from tests.support.milestones import Milestones

_SERVICE: Final = "import sys; from lembasd.cli.service import main; sys.exit(main())"
#: of a login to what is no instance, which asks for none
_TOKEN: Final = "a-test-token"
_PERSON: Final = "import sys; from lembasd.cli.person import main; sys.exit(main())"
#: how long a process of ours may take to be gone once it was told to end
GONE_S: Final = 20.0


class Install:
    """One LEMBAS_HOME below `base` (a short path), with a project directory and a milestone socket."""

    def __init__(self, base: Path, *, portable: bool = False) -> None:
        self.base = base
        self.home = base / "h"
        self.project = base / "p"
        self.project.mkdir()
        self.paths = Paths(
            config=self.home / "config", state=self.home / "state", run=self.home / "run"
        )
        self.milestones = Milestones(base / "m")
        #: what runs the commands: another one is another installation
        self.python: list[str] = [sys.executable]
        self.hub: subprocess.Popen[bytes] | None = None
        #: what a hub's process runs; a test may put something before it
        self.service = _SERVICE
        self._children: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("LEMBAS")},
            **self.milestones.environment,
            FREEZE: str(base / "freeze"),
            "LEMBAS_HOME": str(self.home),
            # a login shell must not read, lock or write what is in the real home
            "HOME": str(base),
        }
        if portable:
            self.environment["LEMBASD_PORTABLE"] = "1"

    async def __aenter__(self) -> Self:
        await self.milestones.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.end()
        await self.end_all()
        await self.milestones.__aexit__(kind, error, traceback)

    # ── configuration ───────────────────────────────────────────────────────────────────────────

    def configure(self, **remote: Any) -> None:
        """Write config.yaml with a `remote:` block: on, this project's parent as root, no trust asked."""
        block = {
            "enabled": True,
            "roots": [str(self.base)],
            "max_mode": "auto",
            "require_trust": False,
            "terminal": True,
            **remote,
        }
        self.paths.config.mkdir(parents=True, exist_ok=True)
        text = "remote:\n" + "".join(
            f"  {key}: {msgspec.json.encode(value).decode()}\n" for key, value in block.items()
        )
        previous = self.paths.config_file.read_text() if self.paths.config_file.exists() else ""
        kept = [line for line in previous.splitlines() if line and line[0] not in " #r"]
        self.paths.config_file.write_text("".join(f"{line}\n" for line in kept) + text)

    def log_in(self, base_url: str, model: str = "scripted", token: str = _TOKEN) -> None:
        """Write a login to `base_url`, whose model local sessions run on."""
        self.paths.make()
        login = Credentials(server=base_url, token=token, default_model=model)
        credentials.store(self.paths.credentials_file, login)

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def spawn(self, code: str, *args: str, **options: Any) -> subprocess.Popen[bytes]:
        log = (self.base / "out").open("ab")
        options = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL, **options}
        child = subprocess.Popen(
            [*self.python, "-c", code, *args],
            env=self.environment,
            start_new_session=True,
            **options,
        )
        log.close()
        self._children.append(child)
        return child

    async def run(
        self, *args: str, service: bool = False, stdin: bytes | None = None, timeout_s: float = 40.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one `lembas` command (or `lembasd`, with `service`) to its end."""
        child = self.spawn(
            _SERVICE if service else _PERSON,
            *args,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.to_thread(child.communicate, stdin, timeout_s)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    async def status(self) -> dict[str, Any]:
        done = await self.run("status", "--json", service=True)
        assert done.returncode == 0, done.stderr.decode()
        value: dict[str, Any] = msgspec.json.decode(done.stdout)
        return value

    # ── the hub ─────────────────────────────────────────────────────────────────────────────────

    async def start_hub(self) -> subprocess.Popen[bytes]:
        self.hub = self.spawn(self.service, "run")
        await self.milestones.wait("hub.listening", pid=self.hub.pid)
        return self.hub

    async def kill_hub(self) -> None:
        assert self.hub is not None
        self.hub.kill()
        await asyncio.to_thread(self.hub.wait, GONE_S)

    async def stop(self) -> None:
        """`lembasd stop`; nothing of this install runs after it, whether a hub ran or not."""
        done = await self.run("stop", service=True)
        assert done.returncode in (0, 3), done.stderr.decode()
        await self.nothing_runs()

    async def end(self) -> None:
        """As `stop`, without a command where this install's own hub still runs: a signal says the same."""
        if self.hub is None or self.hub.poll() is not None:
            await self.stop()
            return
        self.hub.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self.hub.wait, GONE_S)
        await self.nothing_runs()

    async def client(self) -> "Client":
        client = Client()
        await client.hub.connect(self.paths.socket)
        return client

    def freeze(self, milestone: str) -> None:
        """The next process that reaches the milestone stops there."""
        (self.base / f"freeze.{milestone}").touch()

    # ── what runs ───────────────────────────────────────────────────────────────────────────────

    def processes(self) -> list[psutil.Process]:
        """Every process of this install that is alive, tools and shells in its project included."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                here = process.environ().get("LEMBAS_HOME") == str(self.home)
                if here or Path(process.cwd()).is_relative_to(self.base):
                    found.append(process)
        return found

    async def nothing_runs(self, *but: int) -> None:
        """Wait until no process of this install is left but `but`."""
        end = time.monotonic() + GONE_S
        while left := [one for one in self.processes() if one.pid not in but]:
            if time.monotonic() > end:
                raise AssertionError(f"still running: {[describe(one) for one in left]}")
            await asyncio.to_thread(psutil.wait_procs, left, 0.5)

    async def end_all(self) -> None:
        """Kill what is left, so that a failed test leaves nothing behind."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(child.wait, GONE_S)
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe is not None:
                    with suppress(OSError):  # what was not written to one that is gone
                        pipe.close()

    def output(self) -> str:
        """What the processes printed, for a failing test's message."""
        return (self.base / "out").read_text(errors="replace")


def describe(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        parent = process.parent()
        above = " ".join(parent.cmdline()[-6:])[:120] if parent is not None else "nobody"
        return f"{process.pid} {process.status()} {' '.join(process.cmdline())[:120]} (of {above})"
    return f"{process.pid} (gone)"


async def gone(pid: int, timeout_s: float = GONE_S) -> None:
    """Wait until the process `pid` is gone (a zombie counts as gone)."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        end = time.monotonic() + timeout_s
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > end:
                raise AssertionError(f"still running: {describe(process)}")
            with suppress(psutil.TimeoutExpired):
                await asyncio.to_thread(process.wait, 0.1)


class Client:
    """A local client that keeps what it is told."""

    def __init__(self) -> None:
        self.hub = HubClient(self._message)
        self.messages: asyncio.Queue[jsonrpc.Message] = asyncio.Queue()
        self.cards: asyncio.Queue[jsonrpc.Message] = asyncio.Queue()

    def _message(self, message: jsonrpc.Message) -> None:
        (self.cards if message.is_request else self.messages).put_nowait(message)

    async def initialize(self) -> dict[str, Any]:
        return await self.ask(
            "initialize",
            {
                "protocolVersion": 1,
                "clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}},
            },
        )

    async def ask(self, method: str, params: Any, timeout_s: float = 20.0) -> dict[str, Any]:
        value: dict[str, Any] = msgspec.json.decode(
            await self.hub.request(method, params, timeout_s)
        )
        return value

    async def told(self, method: str, timeout_s: float = 20.0) -> dict[str, Any]:
        """The params of the next notification of this method; what comes before it is dropped."""
        async with asyncio.timeout(timeout_s):
            while True:
                message = await self.messages.get()
                if message.method == method:
                    params: dict[str, Any] = msgspec.json.decode(message.params)
                    return params

    async def event(self, kind: str, timeout_s: float = 20.0, **fields: Any) -> dict[str, Any]:
        """The next `_lembas/event` of this type with these fields; what comes before it is dropped."""
        async with asyncio.timeout(timeout_s):
            while True:
                message = await self.messages.get()
                if message.method != "_lembas/event":
                    continue
                event: dict[str, Any] = msgspec.json.decode(message.params)["event"]
                if event["type"] == kind and all(event.get(key) == fields[key] for key in fields):
                    return event

    async def commands(self, timeout_s: float = 20.0) -> list[dict[str, Any]]:
        """The next set of commands that is told; what comes before it is dropped."""
        async with asyncio.timeout(timeout_s):
            while True:
                message = await self.messages.get()
                params = msgspec.json.decode(message.params or b"{}")
                update = params.get("update", {})
                if update.get("sessionUpdate") == "available_commands_update":
                    commands: list[dict[str, Any]] = update["availableCommands"]
                    return commands

    async def answer_card(self, option: str, timeout_s: float = 20.0) -> dict[str, Any]:
        """Answer the next card with `option`; its params are returned."""
        async with asyncio.timeout(timeout_s):
            card = await self.cards.get()
        self.hub.reply(card, {"outcome": {"outcome": "selected", "optionId": option}})
        params: dict[str, Any] = msgspec.json.decode(card.params)
        return params
