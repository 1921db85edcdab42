"""A raw fan-out, to measure the hub against: each line of the one that speaks goes to every other connection.

`python -m benchmarks.fan_out SOCKET` serves until its standard input ends.
"""

import asyncio
import sys
from typing import ClassVar, cast

import uvloop


class FanOut(asyncio.Protocol):
    """One connection; all of them are in `everybody`."""

    everybody: ClassVar["set[FanOut]"] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.everybody.add(self)

    def data_received(self, data: bytes) -> None:
        for one in self.everybody:
            if one is not self:
                one.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.everybody.discard(self)


async def serve(path: str) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(FanOut, path)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1]))
