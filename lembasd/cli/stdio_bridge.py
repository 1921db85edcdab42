"""ACP on standard input and output: each line is a message for the hub, each message of the hub's is a line.

Nothing is read or changed on the way, but that what is of the hub's own dialect stays here. An editor that says nothing of
LLeMbas is given plain ACP by the hub (link.md, Versions). Its end is the end of its input; what runs in its sessions goes on.
"""

import asyncio
import sys
from typing import Final

from lembasd.cli import running, starting
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_NOT_RUNNING,
    METHOD_NOT_FOUND,
    RequestRefused,
    UsageError,
)
from lembasd.protocol.limits import MAX_MESSAGE_BYTES, MIB

#: lines that wait for the editor to read them; more means that it is stuck, and the bridge ends
MAX_WAITING_BYTES: Final = 64 * MIB
#: how a method begins that is no editor's business
_OWN: Final = "_hub/"


class _Line(HubClient):
    """The hub's client, whose messages come from elsewhere."""

    def __init__(self, bridge: "StdioBridge") -> None:
        super().__init__()
        self._bridge = bridge

    def say(self, text: bytes) -> None:
        """Send a finished message. Raises NoHub on a closed connection."""
        self._open_peer().send(Envelope(kind=kinds.RPC, payload=text))

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == kinds.RPC:
            self._bridge.told(message.payload)
        else:
            super().peer_message(peer, message)


class StdioBridge:
    """One editor."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._hub = _Line(self)
        self._out: asyncio.WriteTransport | None = None
        self._stuck = asyncio.Event()

    async def run(self) -> int:
        """Until the editor's input ends, or the hub; the exit code. Raises UsageError when no hub can be had."""
        await starting.connected(self._paths, self._hub)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self._out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
        ends = [
            asyncio.ensure_future(one)
            for one in (self._read(reader), self._hub.lost.wait(), self._stuck.wait())
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._stuck.is_set():
                raise UsageError("the editor does not read what it is sent", EXIT_FAILED)
            if ends[0].done():
                ends[0].result()
                return EXIT_DONE
            raise UsageError("lembasd ended; start it, then this agent again", EXIT_NOT_RUNNING)
        finally:
            for one in ends:
                one.cancel()
            self._hub.close()
            self._out.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the editor says until it says no more."""
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
            except asyncio.LimitOverrunError:
                raise UsageError(
                    f"a message of the editor's is over {MAX_MESSAGE_BYTES // MIB} MiB", EXIT_FAILED
                ) from None
            if text := line.strip():
                self._said(text)
            if not line.endswith(b"\n"):
                return

    def _said(self, text: bytes) -> None:
        try:
            message = jsonrpc.peek(text)
        except RequestRefused:
            pass  # the hub says what is wrong with it
        else:
            if message.method.startswith(_OWN):
                refused = f"{message.method} is not answered here"
                if message.is_request:
                    self._write(jsonrpc.error(message.id, METHOD_NOT_FOUND, refused))
                return
        try:
            self._hub.say(text)
        except NoHub:
            pass  # `run` is about to hear of it

    def told(self, text: bytes) -> None:
        """A message of the hub's."""
        if not text.startswith(b'{"jsonrpc":"2.0","method":"_hub/'):
            self._write(text)

    def _write(self, text: bytes) -> None:
        if self._out is None or self._out.is_closing():
            return
        self._out.write(text + b"\n")
        if self._out.get_write_buffer_size() > MAX_WAITING_BYTES:
            self._stuck.set()


def serve(paths: Paths) -> int:
    """Serve the editor of this process' standard input and output; the exit code."""
    return running.run_async(lambda: StdioBridge(paths).run())
