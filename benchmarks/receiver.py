"""A WebSocket server that does as little as a receiver can, so that what sends to it is what is measured.

It serves the discovery document, accepts any WebSocket, counts the messages that come, and tells senders through a
shared counter how many it has, so that none runs ahead by more than a window.
"""

import asyncio
import base64
import hashlib
import mmap
import struct
import time
from pathlib import Path
from typing import Final, cast

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: the field by which a measured message is told from an answer
MARK: Final = b'"benchmark"'
_STAMP: Final = b'"at":'


def counter(path: Path, *, create: bool = False) -> mmap.mmap:
    """The shared counter: one unsigned 64-bit number."""
    if create:
        path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)


class Receiver(asyncio.Protocol):
    """One connection. Counts messages that hold MARK (all after `expect` was called)."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._buffer = b""
        self._open = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self._buffer = rest
            self._answer(head)
        if self._open:
            self._frames()

    def _answer(self, head: bytes) -> None:
        assert self.transport is not None
        lines = head.split(b"\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in lines[1:])
        }
        key = fields.get(b"sec-websocket-key")
        if key is None:
            body = b'{"name":"benchmark","version":"2.0","protocol":3,"protocols":[3]}'
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            self.transport.close()
            return
        accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
        self.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        self._open = True
        self._server.connected(self)

    def _frames(self) -> None:
        buffer, position, end = self._buffer, 0, len(self._buffer)
        count = 0
        while end - position >= 6:
            opcode, length, start = buffer[position] & 15, buffer[position + 1] & 127, position + 2
            if length == 126:
                length, start = int.from_bytes(buffer[start : start + 2], "big"), start + 2
            elif length == 127:
                length, start = int.from_bytes(buffer[start : start + 8], "big"), start + 8
            stop = start + 4 + length
            if stop > end:
                break
            if opcode == 1:
                if self._server.reads:
                    self._read(buffer[start : start + 4], buffer[start + 4 : stop])
                else:
                    count += 1
            position = stop
        self._buffer = buffer[position:]
        if count:
            self._server.took(count)

    def _read(self, key: bytes, masked: bytes) -> None:
        size = len(masked)
        mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
        text = (int.from_bytes(masked, "big") ^ mask).to_bytes(size, "big")
        if MARK not in text:
            self._server.said(text)
            return
        now = time.monotonic_ns()
        sent = int(text.partition(_STAMP)[2].partition(b"}")[0])
        self._server.latencies_us.append((now - sent) / 1000)
        self._server.took(1)

    def send(self, text: bytes) -> None:
        assert self.transport is not None
        size = len(text)
        head = bytes((0x81, size)) if size < 126 else b"\x81\x7e" + struct.pack(">H", size)
        self.transport.write(head + text)


class Server:
    """The listening side: the connections, the count, and what was said beside the measured messages."""

    def __init__(self, count_file: Path) -> None:
        self._count = counter(count_file, create=True)
        self._total = 0
        self._wanted = 0
        self._done = asyncio.Event()
        self.reads = True
        self.latencies_us: list[float] = []
        self.receivers: asyncio.Queue[Receiver] = asyncio.Queue()
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.first_at = 0.0
        self.last_at = 0.0
        self.port = 0

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Receiver(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Accept no more."""
        self._server.close()

    def connected(self, receiver: Receiver) -> None:
        self.receivers.put_nowait(receiver)

    def said(self, text: bytes) -> None:
        self.answers.put_nowait(text)

    def expect(self, count: int, *, reads: bool) -> None:
        """Start a measurement of `count` messages; with `reads` each is unmasked and its time taken."""
        self.reads = reads
        self._total, self._wanted, self.first_at = 0, count, 0.0
        self._count[:] = bytes(8)
        self.latencies_us = []
        self._done.clear()

    def took(self, count: int) -> None:
        if not self._total:
            self.first_at = time.monotonic()
        self._total += count
        self._count[:] = self._total.to_bytes(8, "little")
        if self._total >= self._wanted:
            self.last_at = time.monotonic()
            self._done.set()

    async def done(self, timeout_s: float) -> float:
        """Wait for the last expected message; seconds from the first to it."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._done.wait()
        except TimeoutError:
            raise RuntimeError(f"{self._total} of {self._wanted} messages came") from None
        return self.last_at - self.first_at
