"""ttyd, where it is installed: the same commands behind a WebSocket of its own, for a figure to hold ours against."""

import asyncio
import json
import shutil
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

_MB: Final = 1_000_000
_START_S: Final = 10.0
#: the first byte of a message: of a client's, keys; of the server's, output
_DATA: Final = b"0"
_SIZE: Final = json.dumps({"AuthToken": "", "columns": 80, "rows": 24}).encode()


def is_there() -> bool:
    return shutil.which("ttyd") is not None


@asynccontextmanager
async def _server(argv: list[str]) -> AsyncIterator[str]:
    """A ttyd that runs `argv` for each connection; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        "ttyd",
        *("-W", "-i", "127.0.0.1", "-p", str(port)),
        *argv,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_START_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                    continue
                writer.close()
                break
        yield f"ws://127.0.0.1:{port}/ws"
    finally:
        server.kill()
        await server.wait()


def _connect(url: str) -> connect:
    return connect(url, subprotocols=[Subprotocol("tty")], compression=None, max_size=None)


async def rate(command: str) -> float:
    """MB a second of a command's output, from its start to its end."""
    async with _server(["sh", "-c", command]) as url, _connect(url) as viewer:
        begun, count = time.perf_counter(), 0
        await viewer.send(_SIZE)
        try:
            async for message in viewer:
                if message[:1] == _DATA:
                    count += len(message) - 1
        except ConnectionClosed:
            pass
        return count / (time.perf_counter() - begun) / _MB


async def echo(keys: list[bytes]) -> list[float]:
    """Microseconds from each key to its echo by `cat`."""
    async with (
        _server(["sh", "-c", "stty raw -echo; echo ready; exec cat"]) as url,
        _connect(url) as viewer,
    ):
        await viewer.send(_SIZE)
        await _until(viewer, b"ready")
        await asyncio.sleep(0.3)
        waits = []
        for key in keys:
            begun = time.perf_counter()
            await viewer.send(_DATA + key)
            await _until(viewer, key)
            waits.append((time.perf_counter() - begun) * 1e6)
        return waits


async def _until(viewer: ClientConnection, text: bytes) -> None:
    seen = b""
    while text not in seen:
        message = await viewer.recv()
        if isinstance(message, bytes) and message[:1] == _DATA:
            seen = seen[-100:] + message[1:]
