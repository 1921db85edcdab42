"""A terminal through hub and pty process, against a plain loop that reads the same command's pseudo-terminal."""

import asyncio
import os
import pty
import shutil
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from benchmarks import ttyd
from benchmarks.install import Install
from benchmarks.measure import Figure, median
from lembasd.cli.acknowledging import Acknowledging
from lembasd.cli.core.place import Place
from lembasd.ipc.client import HubClient
from lembasd.protocol import jsonrpc
from lembasd.protocol.lembas import TerminalOutput

#: pairs of runs of each command
REPEATS: Final = 5
LINES: Final = 320_000
ECHOES: Final = 200
#: what a slow reader takes of a flood, and for how long it takes it before the interrupt key
SLOW_BYTES_S: Final = 3_000_000
FLOOD_S: Final = 3.0
FLOODS: Final = 3
_TIMEOUT_S: Final = 60.0
_MB: Final = 1_000_000
#: hold and reach of our rate to that of another way
_HOLDS: Final = {"a plain loop": (0.75, 0.9), "ttyd": (0.85, 1.2), "dtach": (1.3, 2.0)}
_END: Final = b"benchmark" + b"-end"

_output: Final = msgspec.json.Decoder(TerminalOutput)


def _commands(base: Path) -> dict[str, str]:
    text = base / "text"
    text.write_bytes(
        b"".join(b"%07d some words of a line that is as long as most\n" % n for n in range(LINES))
    )
    return {"cat": f"cat {text}", "seq": "seq 1500000", "yes": "yes | head -n 3000000"}


def _plain(argv: list[str]) -> float:
    """MB a second of a loop that reads what a program writes to its terminal and throws it away."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)  # noqa: S606 - the child of a fork
    begun, count = time.perf_counter(), 0
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        count += len(data)
    took = time.perf_counter() - begun
    os.waitpid(pid, 0)
    os.close(terminal)
    return count / took / _MB


class Viewer:
    """A local client with one terminal, as `lembas term` is one. `pace`: bytes a second that it shows; None: all at once."""

    def __init__(self) -> None:
        self.shown = 0
        self._place = Place()
        self._shown = Acknowledging(lambda: self._place, self._acknowledge)
        self.pace: float | None = None
        self.last = b""
        self._news = asyncio.Event()
        self._busy_until = 0.0
        self._closed = False
        self.client = HubClient(self._message, self._output)
        self.terminal = ""

    async def open(self, install: Install, **params: Any) -> None:
        await self.client.connect(install.paths.socket)
        asks = {"protocol": 3, "terminal_frames": True}
        lembas = {"clientCapabilities": {"_meta": {"lembas": asks}}}
        await self.client.request("initialize", {"protocolVersion": 1, **lembas})
        asked = {"cwd": str(install.project), **params}
        answer = await self.client.request("_lembas/terminal/open", asked)
        self.terminal = msgspec.json.decode(answer)["terminalId"]

    def type(self, data: bytes) -> None:
        self.client.type(self.terminal, data)

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            while text not in self.last:
                self._news.clear()
                await self._news.wait()

    def _message(self, message: jsonrpc.Message) -> None:
        if message.method != "_lembas/terminal/output":
            return
        output = _output.decode(message.params)
        place = output.meta.lembas.offset if output.meta is not None else 0
        self._output(self.terminal, place, output.data)

    def _output(self, _terminal: str, offset: int, data: bytes) -> None:
        self.shown += len(data)
        self.last = self.last[-200:] + data[-200:]
        self._place.came(offset, len(data))
        if self.pace is None:
            self._shown.written(len(data))
        else:
            loop = asyncio.get_running_loop()
            self._busy_until = max(self._busy_until, loop.time()) + len(data) / self.pace
            loop.call_at(self._busy_until, self._shown.written, len(data))
        self._news.set()

    def _acknowledge(self, offset: int) -> None:
        if not self._closed:
            params = {"terminalId": self.terminal, "offset": offset}
            self.client.notify("_lembas/terminal/ack", params)

    @property
    def late_s(self) -> float:
        """How far a slow reader is behind what has come."""
        return max(0.0, self._busy_until - asyncio.get_running_loop().time())

    def close(self) -> None:
        self._closed = True
        self._shown.close()
        self.client.close()

    async def run(self, command: str) -> float:
        """MB a second of a command, to its last byte."""
        before, begun = self.shown, time.perf_counter()
        self.type(command.encode() + b"; echo benchmark''-end\n")
        await self.until(_END)
        took = time.perf_counter() - begun
        count, self.last = self.shown - before, b""
        return count / took / _MB


async def _viewer(install: Install) -> Viewer:
    viewer = Viewer()
    await viewer.open(install)
    viewer.type(b"PS1='$ '; stty -echo; echo benchmark''-end\n")
    await viewer.until(_END)
    viewer.last = b""
    return viewer


async def _throughput(install: Install) -> list[Figure]:
    figures = []
    viewer = await _viewer(install)
    dtach = shutil.which("dtach")
    for name, command in _commands(install.base).items():
        shell = ["sh", "-c", command]
        ours, rates = [], dict[str, list[float]]()
        for number in range(REPEATS):
            plain = await asyncio.to_thread(_plain, shell)
            rates.setdefault("a plain loop", []).append(plain)
            ours.append(await viewer.run(command))
            if ttyd.is_there():
                rates.setdefault("ttyd", []).append(await ttyd.rate(command))
            if dtach is not None:
                place = str(install.base / f"dtach{name}{number}")
                argv = [dtach, "-c", place, "-E", "-z", *shell]
                rates.setdefault("dtach", []).append(await asyncio.to_thread(_plain, argv))
        for other, theirs in rates.items():
            hold, reach = _HOLDS[other]
            ratio = median([a / b for a, b in zip(ours, theirs, strict=True)])
            basis = f"{median(ours):.1f} MB/s; {other} {median(theirs):.1f}; {REPEATS} pairs"
            if other == "dtach":
                # the most that anything can reach here: it hands the same bytes on, of which the kernel gives no more
                most = median([a / b for a, b in zip(rates["a plain loop"], theirs, strict=True)])
                basis += f"; a plain loop {most:.2f}"
            figures.append(
                Figure(
                    f"{name}, against {other}", ratio, "x", hold, reach, higher=True, basis=basis
                )
            )
    viewer.close()
    return figures


async def _echo(install: Install) -> list[Figure]:
    """A key to a program that writes it back, there and back; ours and another way's in turn."""
    keys = [b"<%d>" % number for number in range(ECHOES)]
    ours, bare, theirs = [], [], []
    for _ in range(REPEATS):
        ours.append(await _our_echo(install, keys))
        bare.append(await asyncio.to_thread(_plain_echo))
        if ttyd.is_there():
            theirs.append(median(await ttyd.echo(keys)))
    added = median([a - b for a, b in zip(ours, bare, strict=True)])
    basis = f"{median(ours):.0f} µs; over a bare pseudo-terminal {median(bare):.0f}; {REPEATS} pairs of {ECHOES} keys"
    figures = [
        Figure("keystroke echo, added p50", added, "µs", 250, 100, higher=False, basis=basis)
    ]
    if theirs:
        ratio = median([a / b for a, b in zip(ours, theirs, strict=True)])
        basis = (
            f"{median(ours):.0f} µs; ttyd {median(theirs):.0f}; {REPEATS} pairs of {ECHOES} keys"
        )
        name = "keystroke echo p50, against ttyd"
        figures.append(Figure(name, ratio, "x", 2.5, 1.6, higher=False, basis=basis))
    return figures


async def _our_echo(install: Install, keys: list[bytes]) -> float:
    """The median, in microseconds."""
    viewer = await _viewer(install)
    viewer.type(b"stty raw -echo; exec cat\n")
    await asyncio.sleep(0.3)
    waits = []
    for key in keys:
        begun = time.perf_counter()
        viewer.type(key)
        await viewer.until(key)
        waits.append((time.perf_counter() - begun) * 1e6)
    viewer.close()
    return median(waits)


def _plain_echo() -> float:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "stty raw -echo; echo ok; exec cat"])  # noqa: S606 - the child of a fork
    while b"ok" not in os.read(terminal, 1000):
        pass
    time.sleep(0.3)
    waits = []
    for number in range(ECHOES):
        begun = time.perf_counter()
        os.write(terminal, b"<%d>" % number)
        os.read(terminal, 100)
        waits.append((time.perf_counter() - begun) * 1e6)
    os.close(terminal)
    os.waitpid(pid, 0)
    return median(waits)


async def _flood(install: Install, hub: int) -> list[Figure]:
    """An endless flood for a slow reader: what the hub grows by, and how soon the prompt is back."""
    grown, waits = [], []
    process = psutil.Process(hub)
    for _ in range(FLOODS):
        viewer = await _viewer(install)
        viewer.pace = SLOW_BYTES_S
        before = process.memory_info().rss
        viewer.type(b"yes\n")
        await asyncio.sleep(FLOOD_S)
        grown.append((process.memory_info().rss - before) / _MB)
        begun = time.perf_counter()
        viewer.type(b"\x03")
        viewer.last = b""
        await viewer.until(b"$ ")
        # shown, not only come: the reader is behind by what waits before it
        waits.append(time.perf_counter() - begun + viewer.late_s)
        viewer.close()
    return [
        Figure(
            "flood at 3 MB/s: hub growth",
            max(grown),
            "MB",
            5,
            0.3,
            higher=False,
            basis=f"the most of {FLOODS}",
        ),
        Figure(
            "flood at 3 MB/s: Ctrl-C to prompt",
            median(waits),
            "s",
            0.5,
            0.2,
            higher=False,
            basis=f"median of {FLOODS}",
        ),
    ]


async def measure() -> list[Figure]:
    """Throughput, echo and floods of terminals on this machine."""
    async with Install() as install:
        hub = await install.start_hub()
        return [
            *await _throughput(install),
            *await _echo(install),
            *await _flood(install, hub.pid),
        ]
