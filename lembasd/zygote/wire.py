"""Frames over a blocking socketpair."""

import socket
from typing import Final

import msgspec

from lembasd.ipc.framing import FrameDecoder, encode_frame
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.limits import KIB
from lembasd.protocol.spawn import FORK, Assignment

_READ_BYTES: Final = 64 * KIB
_assignment: Final = msgspec.json.Decoder(Assignment)


class Control:
    """One end of the control socket. A hub that is gone is no error: it is told by `receive`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._decoder = FrameDecoder()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, payload: msgspec.Struct | None = None) -> None:
        body = msgspec.json.encode(payload) if payload is not None else b""
        try:
            self._socket.sendall(encode_frame(Envelope(kind=kind, payload=body)))
        except OSError:
            pass  # the hub is gone: nobody is left to be told

    def receive(self) -> list[Assignment] | None:
        """Wait for the hub; the assignments it sent (kinds not known are left out), None at its end."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError:
            return None
        if not data:
            return None
        return [
            _assignment.decode(frame.payload)
            for frame in self._decoder.feed(data)
            if frame.kind == FORK
        ]

    def close(self) -> None:
        self._socket.close()
