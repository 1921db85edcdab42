"""Messages through the hub to its link, against WebSockets that workers would have of their own."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import IO, Final, Self

import msgspec
import psutil

from benchmarks.install import Install
from benchmarks.measure import Figure, median
from benchmarks.receiver import Receiver, Server
from lembasd.protocol import ids, jsonrpc

SENDERS: Final = 4
MESSAGES: Final = 64_000
REPEATS: Final = 5
#: messages a second of each sender, and how many, when the latency is measured
PACE: Final = 250
PACED: Final = 500
LATENCY_REPEATS: Final = 3
_TIMEOUT_S: Final = 60.0


class Senders:
    """The processes of one way: a sender each, told what to send by its standard input."""

    def __init__(self, install: Install, kind: str, targets: list[str], seen: Path) -> None:
        self.processes = [
            install.spawn(
                "-m",
                "benchmarks.sender",
                kind,
                target,
                str(seen),
                str(len(targets)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for target in targets
        ]

    async def said(self, word: bytes) -> Self:
        """Wait until each has said `word`."""
        async with asyncio.timeout(_TIMEOUT_S):
            for process in self.processes:
                line = await asyncio.to_thread(_pipe(process.stdout).readline)
                if line.strip() != word:
                    raise RuntimeError(f"a sender says {line!r} instead of {word!r}")
        return self

    def tell(self, line: str) -> None:
        for process in self.processes:
            pipe = _pipe(process.stdin)
            pipe.write(f"{line}\n".encode())
            pipe.flush()

    async def end(self) -> None:
        for process in self.processes:
            _pipe(process.stdin).close()
            await asyncio.to_thread(process.wait, _TIMEOUT_S)
            _pipe(process.stdout).close()


def _pipe(pipe: "IO[bytes] | None") -> IO[bytes]:
    assert pipe is not None
    return pipe


async def _answer(server: Server, number: int) -> None:
    """Wait for the answer to the request `number`; the link's own messages are passed over."""
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            seen = jsonrpc.peek(await server.answers.get())
            if seen.is_reply and seen.id == jsonrpc.raw_id(number):
                if seen.error:
                    raise RuntimeError(seen.error.decode())
                return


async def _attach(server: Server, link: Receiver, sessions: list[str]) -> None:
    """As the instance does: say hello, then name each session, which attaches the link to it."""
    lembas = {"clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}}}
    link.send(jsonrpc.request(1, "initialize", {"protocolVersion": 1, **lembas}))
    await _answer(server, 1)
    for number, session in enumerate(sessions, 2):
        link.send(jsonrpc.request(number, "_lembas/session/status", {"sessionId": session}))
        await _answer(server, number)


async def _flood(server: Server, senders: Senders) -> float:
    """Messages a second."""
    server.expect(MESSAGES, reads=False)
    senders.tell(f"flood {MESSAGES // len(senders.processes)}")
    return MESSAGES / await server.done(_TIMEOUT_S)


async def _latency(server: Server, senders: Senders) -> float:
    """The median of the microseconds from sent to received."""
    server.expect(PACED * SENDERS, reads=True)
    senders.tell(f"pace {PACED} {PACE}")
    await server.done(_TIMEOUT_S)
    return median(server.latencies_us)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _rates(
    server: Server, routed: Senders, alone: Senders, hub: psutil.Process
) -> list[Figure]:
    rates: dict[Senders, list[float]] = {routed: [], alone: []}
    cpu_us = []
    for senders in (routed, alone):
        await _flood(server, senders)  # not counted: everything is loaded and at its size after it
    for _ in range(REPEATS):
        before = _cpu_s(hub)
        rates[routed].append(await _flood(server, routed))
        cpu_us.append((_cpu_s(hub) - before) / MESSAGES * 1e6)
        rates[alone].append(await _flood(server, alone))
    through, straight = median(rates[routed]), median(rates[alone])
    ratio = median([a / b for a, b in zip(rates[routed], rates[alone], strict=True)])
    basis = (
        f"{through / 1e3:.0f}k a second; one sender alone {straight / 1e3:.0f}k; {REPEATS} pairs"
    )
    spent = f"{min(cpu_us):.2f} to {max(cpu_us):.2f}, 190-byte messages"
    return [
        Figure("messages a second, hub to direct", ratio, "x", 2.0, 4.0, higher=True, basis=basis),
        Figure("hub CPU a message", median(cpu_us), "µs", 4, 2.2, higher=False, basis=spent),
    ]


async def _added(server: Server, routed: Senders, direct: Senders) -> Figure:
    waits: dict[Senders, list[float]] = {routed: [], direct: []}
    for _ in range(LATENCY_REPEATS):
        for senders, values in waits.items():
            values.append(await _latency(server, senders))
    slow, quick = median(waits[routed]), median(waits[direct])
    delay = f"{slow:.0f} µs; direct {quick:.0f} µs; {SENDERS} x {PACE} a second"
    added = slow - quick
    return Figure("latency added, p50", added, "µs", 60, 20, higher=False, basis=delay)


async def measure() -> list[Figure]:
    """Rate, CPU and latency of what the hub routes."""
    async with Install(linked=True) as install:
        seen = install.base / "seen"
        server = Server(seen)
        await server.start()
        install.log_in(f"http://127.0.0.1:{server.port}")
        hub = await install.start_hub()
        async with asyncio.timeout(_TIMEOUT_S):
            link = await server.receivers.get()
        sessions = [ids.session_id(os.urandom(ids.SESSION_RANDOM_BYTES)) for _ in range(SENDERS)]
        routed = await Senders(install, "hub", sessions, seen).said(b"started")
        await _until_connected(install, SENDERS)
        await _attach(server, link, sessions)
        await routed.said(b"attached")
        url = f"ws://127.0.0.1:{server.port}/"
        direct = await Senders(install, "direct", [url] * SENDERS, seen).said(b"started")
        alone = await Senders(install, "direct", [url], seen).said(b"started")
        figures = await _rates(server, routed, alone, psutil.Process(hub.pid))
        figures.append(await _added(server, routed, direct))
        for senders in (routed, direct, alone):
            await senders.end()
        server.close()
    return figures


async def _until_connected(install: Install, count: int) -> None:
    """Wait until the hub has `count` workers."""
    client = await install.client()
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            status = msgspec.json.decode(await client.request("_hub/status", {}))
            if len(status["workers"]) == count:
                client.close()
                return
            await asyncio.sleep(0.05)
