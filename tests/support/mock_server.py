"""Mock servers of others', each in a process of its own."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def served(*command: str, port: int, health: str) -> AsyncIterator[str]:
    """A mock server of its own process, once it answers; its base URL."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(40), httpx.AsyncClient() as http:
            while True:
                try:
                    await http.get(f"{url}{health}")
                    break
                except httpx.HTTPError:
                    await asyncio.sleep(0.05)  # it says nothing when it listens
        yield url
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
