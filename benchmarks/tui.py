"""`lembas` on a terminal's two ends: the first picture, a long history, and typing while the agent floods it.

The service is played, so that what is measured is the program alone: it runs in a process of its own, on a PTY.
"""

import asyncio
import fcntl
import os
import struct
import subprocess
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psutil

from benchmarks.install import Install
from benchmarks.measure import Figure, median
from tests.support.played_service import SESSION, PlayedService

#: cold starts; the fastest tells what the program takes, the others what else the machine did
STARTS: Final = 7
MESSAGES: Final = 5000
EVENTS: Final = 5000
KEYS: Final = 60
PAGES: Final = 40
#: between two keys: a fast typist's
_KEY_S: Final = 0.03
_TIMEOUT_S: Final = 30.0
_PERSON: Final = "import sys; from lembasd.cli.person import main; sys.exit(main())"
#: characters that nothing else on the screen has
_FIRST_KEY: Final = 0x100
_PAGE_UP: Final = b"\x1b[5~"
_MILLI: Final = 1000


class Screen:
    """The other end of the PTY: what was drawn, and when it was."""

    def __init__(self, install: Install, *arguments: str) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.set_blocking(self._master, False)
        self.drawn = bytearray()
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._master, self._take)
        install.environment["TERM"] = "xterm-256color"
        self.started = time.perf_counter()
        self.child: subprocess.Popen[bytes] = install.spawn(
            "-c", _PERSON, *arguments, stdin=slave, stdout=slave, stderr=slave, cwd=install.project
        )
        os.close(slave)

    def _take(self) -> None:
        try:
            self.drawn += os.read(self._master, 1 << 16)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)
        self._news.set()

    async def shows(self, text: bytes) -> float:
        """Wait until it was drawn; the time then."""
        async with asyncio.timeout(_TIMEOUT_S):
            while text not in self.drawn:
                self._news.clear()
                await self._news.wait()
        return time.perf_counter()

    async def news(self) -> float:
        """Wait until anything is drawn; the time then."""
        self._news.clear()
        async with asyncio.timeout(_TIMEOUT_S):
            await self._news.wait()
        return time.perf_counter()

    def type(self, keys: bytes) -> float:
        os.write(self._master, keys)
        return time.perf_counter()

    def cpu(self) -> float:
        """Seconds of a core that the program has used: on a busy machine they tell what the clock does not."""
        used = psutil.Process(self.child.pid).cpu_times()
        return float(used.user + used.system)

    async def close(self) -> None:
        self.child.kill()
        await asyncio.to_thread(self.child.wait)
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)


@asynccontextmanager
async def _screen(install: Install, *arguments: str) -> AsyncIterator[Screen]:
    screen = Screen(install, *arguments)
    try:
        yield screen
    finally:
        await screen.close()


async def measure() -> list[Figure]:
    """First picture, history, scrolling, typing in a burst."""
    async with Install() as install, PlayedService(install.paths) as service:
        starts = [await _first_paint(install) for _ in range(STARTS)]
        opened, opening_cpu, pages, page_cpu = await _history(install, service)
        typed, seen = await _burst(install, service)
    painted = [took for took, _ in starts]
    start_cpu = min(cpu for _, cpu in starts)
    late = sorted(typed)[int(0.95 * len(typed))]
    slow = sorted(pages)[int(0.95 * len(pages))]
    shown = ", ".join(f"{one * _MILLI:.0f}" for one in painted)
    shown += f"; {start_cpu * _MILLI:.0f} ms of a core"
    return [
        Figure("lembas to its first picture", min(painted) * _MILLI, "ms", 400, 300, False, shown),
        Figure(
            f"a history of {MESSAGES:,} messages opens",
            opened * _MILLI,
            "ms",
            500,
            200,
            False,
            f"from the service's answer to the last message on the screen; {opening_cpu * _MILLI:.0f} ms of a core",
        ),
        Figure(
            "a page up in it, p95",
            slow * _MILLI,
            "ms",
            50,
            30,
            False,
            f"median {median(pages) * _MILLI:.1f} ms of {PAGES}; {page_cpu * _MILLI:.1f} ms of a core each",
        ),
        Figure(
            f"a key while {EVENTS:,} events come, p95",
            late * _MILLI,
            "ms",
            50,
            30,
            False,
            f"median {median(typed) * _MILLI:.1f} ms of {len(typed)} keys; all seen in {seen:.2f} s",
        ),
    ]


async def _first_paint(install: Install) -> tuple[float, float]:
    async with _screen(install) as screen:
        # what is typed has its place, and the line below says how it stands
        took = await screen.shows(b"connected") - screen.started
        return took, screen.cpu()


def _turns() -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for number in range(MESSAGES // 2):
        turns.append({"role": "user", "text": f"question {number}"})
        text = (
            f"## Answer {number}\n\nIt **depends** on `this`:\n\n- one\n- two\n\n"
            f"```python\ndef f(x):\n    return x + {number}\n```\n\nThat is message {number}."
        )
        tool = {"id": f"c{number}", "name": "bash", "args": {"command": "ls"}, "output": "a\nb"}
        turns.append({"role": "assistant", "text": text, "reasoning": "so", "tools": [tool]})
    return turns


async def _history(
    install: Install, service: PlayedService
) -> tuple[float, float, list[float], float]:
    service.snapshot = {**service.snapshot, "turns": _turns()}
    pages: list[float] = []
    async with _screen(install, "--resume", SESSION) as screen:
        await service.next("_hub/attach")
        answered, before = time.perf_counter(), screen.cpu()
        opened = await screen.shows(f"message {MESSAGES // 2 - 1}".encode()) - answered
        opening_cpu = screen.cpu() - before
        await asyncio.sleep(0.3)  # whatever is drawn once more after the first picture
        before = screen.cpu()
        for _ in range(PAGES):
            begun = screen.type(_PAGE_UP)
            pages.append(await screen.news() - begun)
            await asyncio.sleep(_KEY_S)
        page_cpu = (screen.cpu() - before) / PAGES
    return opened, opening_cpu, pages, page_cpu


async def _burst(install: Install, service: PlayedService) -> tuple[list[float], float]:
    service.snapshot = {**service.snapshot, "turns": []}
    typed: list[float] = []
    async with _screen(install, "--resume", SESSION) as screen:
        await service.next("_hub/attach")
        await screen.shows(b"ready")
        await asyncio.sleep(0.5)  # it is in use: what it loads beside its start has been loaded
        begun = time.perf_counter()
        flood = asyncio.create_task(_flood(service))
        for number in range(KEYS):
            key = chr(_FIRST_KEY + number).encode()
            pressed = screen.type(key)
            typed.append(await screen.shows(key) - pressed)
            await asyncio.sleep(_KEY_S)
        await flood
        seen = await screen.shows(b"the end of it") - begun
    return typed, seen


async def _flood(service: PlayedService) -> None:
    """As fast as it goes: each event as a service says it, twice."""
    service.event("task", state="start", turnId="t")
    for number in range(EVENTS):
        text = f"word{number} " if number % 12 else f"\n\nParagraph *{number}*: "
        service.event("text", text=text, messageId="m")
        service.update("agent_message_chunk", content={"type": "text", "text": text})
        if number % 50 == 49:
            await asyncio.sleep(0)
    service.event("text", text="\n\nthe end of it", messageId="m")
