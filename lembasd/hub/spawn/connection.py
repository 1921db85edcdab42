"""The hub's end of a helper's control socket."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import msgspec

from lembasd.ipc.framing import FrameDecoder, encode_frame
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import FrameError


class Connection(asyncio.Protocol):
    """Frames of one helper. `on_frame` and `on_lost` are called from the loop; `on_lost` once."""

    def __init__(self, on_frame: Callable[[Envelope], None], on_lost: Callable[[], None]) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._finished = False

    async def open(self, control: socket.socket) -> None:
        """Take over the socket."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=control)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        for data in self._waiting:
            self._transport.write(data)
        self._waiting.clear()
        if self._finished:
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._on_frame(frame)
        except (FrameError, msgspec.MsgspecError):
            self.close()  # a helper that speaks garbage is as good as gone

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    def send(self, kind: str, payload: msgspec.Struct) -> None:
        """Send, or keep until the socket is taken over."""
        data = encode_frame(Envelope(kind=kind, payload=msgspec.json.encode(payload)))
        if self._transport is not None:
            self._transport.write(data)
        else:
            self._waiting.append(data)

    def finish(self) -> None:
        """Say that nothing more will be asked; what the helper says is still read."""
        if not self._finished:
            self._finished = True
            if self._transport is not None:
                self._transport.write_eof()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
