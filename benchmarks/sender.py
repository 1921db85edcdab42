"""A process that sends measured messages: as a worker through the hub, or straight over a WebSocket.

`python -m benchmarks.sender hub|direct …` obeys lines on its standard input: `flood N` and `pace N PER_SECOND`.
"""

import argparse
import asyncio
import fcntl
import os
import sys
import time
from pathlib import Path
from typing import Final

import uvloop
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as dial

from benchmarks.receiver import counter
from lembasd.device.paths import find_paths
from lembasd.ipc.connect import connect
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello, SessionHello
from lembasd.protocol.lembas import Status

#: messages all senders together may be ahead of the receiver
WINDOW: Final = 4000
#: between two looks at a window that is full; uvloop waits whole milliseconds
WAIT_S: Final = 0.001
#: messages between two looks at the window
BATCH: Final = 64
#: what makes a message 190 bytes long with its stamp
_FILLER: Final = "x" * 88


#: as long as a time is: a flood takes none
_STAMP: Final = 10**12 - 1


def message(stamp: int) -> bytes:
    return (
        '{"jsonrpc":"2.0","method":"_lembas/event","params":{"benchmark":"delta","text":"'
        f'{_FILLER}","at":{stamp}}}}}'
    ).encode()


class WorkerSender:
    """Plays a worker with one session; the hub routes what it sends to the link."""

    def __init__(self, session_id: str) -> None:
        self._session = session_id
        self._seq = 0
        self._peer: Peer | None = None
        self.attached = asyncio.Event()

    async def start(self) -> None:
        paths = find_paths()
        directory = paths.session(self._session)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "journal.jsonl").touch()
        self._lock = (directory / "lock").open("a+")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        session = SessionHello(session_id=self._session, epoch=1)
        hello = Hello(role="worker", build="benchmark", pid=os.getpid(), session=session)
        self._peer = await connect(paths.socket, hello, self)

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        if hello.refused:
            raise RuntimeError(hello.refused)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == kinds.ATTACHED:
            self.attached.set()
        elif message.kind == kinds.RPC and message.request:
            seen = jsonrpc.peek(message.payload)
            status = Status(self._session, True, "here", False, "", [])
            peer.send(
                Envelope(
                    kind=kinds.RPC,
                    channel=self._session,
                    client=message.client,
                    request=message.request,
                    audience=kinds.ONE,
                    payload=jsonrpc.result(seen.id, status),
                )
            )

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        sys.exit(f"the hub is gone: {reason}")

    async def send(self, text: bytes) -> None:
        assert self._peer is not None
        self._seq += 1
        self._peer.send(
            Envelope(
                kind=kinds.RPC,
                channel=self._session,
                epoch=1,
                seq=self._seq,
                audience=kinds.LEMBAS,
                payload=text,
            )
        )


class DirectSender:
    """Sends over a WebSocket of its own, one message at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._socket: ClientConnection | None = None

    async def start(self) -> None:
        self._socket = await dial(self._url, compression=None, proxy=None)

    async def send(self, text: bytes) -> None:
        assert self._socket is not None
        await self._socket.send(text.decode())


async def flood(sender: WorkerSender | DirectSender, count: int, seen: Path, senders: int) -> None:
    shared, sent = counter(seen), 0
    while sent < count:
        while sent * senders - int.from_bytes(shared[:], "little") > WINDOW:  # noqa: ASYNC110 - another process moves it
            # not 0: a sender that spins takes the processor from what it waits for
            await asyncio.sleep(WAIT_S)
        for _ in range(min(BATCH, count - sent)):
            await sender.send(message(_STAMP))
            sent += 1
        await asyncio.sleep(0)


async def pace(sender: WorkerSender | DirectSender, count: int, per_second: float) -> None:
    start = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, start + number / per_second - time.monotonic()))
        await sender.send(message(time.monotonic_ns()))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["hub", "direct"])
    parser.add_argument("target")
    parser.add_argument("seen", type=Path)
    parser.add_argument("senders", type=int)
    options = parser.parse_args()
    sender = WorkerSender(options.target) if options.kind == "hub" else DirectSender(options.target)
    await sender.start()
    print("started", flush=True)
    if isinstance(sender, WorkerSender):
        await sender.attached.wait()
        print("attached", flush=True)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        words = line.split()
        if words[0] == b"flood":
            await flood(sender, int(words[1]), options.seen, options.senders)
        else:
            await pace(sender, int(words[1]), float(words[2]))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
