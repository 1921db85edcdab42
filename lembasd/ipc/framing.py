"""Frames to bytes and back, and messages to frames and back. Pure: bytes in, values out."""

from collections.abc import Iterator
from typing import Final

import msgspec

from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import FrameError
from lembasd.protocol.limits import (
    MAX_ASSEMBLY_BYTES,
    MAX_FRAME_BYTES,
    MAX_FRAME_PAYLOAD_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PARTIAL_MESSAGES,
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Envelope)
_LENGTH_BYTES: Final = 4
#: a longer body is decoded where it lies
_VIEWED_BYTES: Final = 4096


def encode_frame(frame: Envelope) -> bytes:
    """One frame as it goes over the socket. The payload must fit (`split` sees to it)."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def split(message: Envelope, number: int) -> Iterator[Envelope]:
    """The frames of one message, the `number`th of its connection and direction."""
    payload = message.payload
    total = len(payload)
    if total <= MAX_FRAME_PAYLOAD_BYTES:
        yield message
        return
    replace = msgspec.structs.replace
    for start in range(0, total, MAX_FRAME_PAYLOAD_BYTES):
        end = start + MAX_FRAME_PAYLOAD_BYTES
        yield replace(
            message, payload=payload[start:end], message=number, total=total, more=end < total
        )


class FrameDecoder:
    """Cuts a byte stream into frames. Keeps at most one unfinished frame."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = _LENGTH_BYTES

    def feed(self, data: bytes) -> list[Envelope]:
        """The frames that `data` finishes.

        Raises FrameError at a length over the bound or a body that is no envelope; the connection is then lost.
        """
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return []
        buffer = b"".join(self._chunks) if len(self._chunks) > 1 else data
        frames: list[Envelope] = []
        position, end = 0, len(buffer)
        self._wanted = _LENGTH_BYTES
        while end - position >= _LENGTH_BYTES:
            length = int.from_bytes(buffer[position : position + _LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"a frame of {length} bytes is over the {MAX_FRAME_BYTES} allowed")
            body = position + _LENGTH_BYTES
            if end - body < length:
                self._wanted = _LENGTH_BYTES + length
                break
            try:
                # a short body is copied in less time than it takes to make a view of it
                part = buffer if length < _VIEWED_BYTES else memoryview(buffer)
                frames.append(_decoder.decode(part[body : body + length]))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise FrameError("a frame holds no envelope") from error
            position = body + length
        rest = buffer[position:]
        self._chunks = [rest] if rest else []
        self._held = len(rest)
        return frames


class AssemblyBudget:
    """Bytes of unfinished messages over all connections of one process."""

    def __init__(self, bound: int = MAX_ASSEMBLY_BYTES) -> None:
        self._bound = bound
        self.held_bytes = 0

    def take(self, count: int) -> None:
        """Raises FrameError when `count` more bytes would go over the bound."""
        if self.held_bytes + count > self._bound:
            raise FrameError("too many unfinished messages at once; try again later")
        self.held_bytes += count

    def give_back(self, count: int) -> None:
        self.held_bytes -= count


class _Partial:
    def __init__(self, first: Envelope) -> None:
        self.first = first
        self.chunks: list[bytes] = []
        self.held = 0


class MessageAssembler:
    """Puts the frames of one connection's messages together; messages may interleave.

    A message's whole size is refused at its first frame, before anything of it is buffered.
    """

    def __init__(self, budget: AssemblyBudget) -> None:
        self._budget = budget
        self._partial: dict[int, _Partial] = {}

    def add(self, frame: Envelope) -> Envelope | None:
        """The message that `frame` finishes, or None. Raises FrameError at a message over a bound or malformed."""
        if frame.message == 0 and not frame.more:
            return frame  # all but long messages
        partial = self._partial.get(frame.message)
        if partial is None:
            if not frame.more:
                return frame
            partial = self._begin(frame)
        partial.chunks.append(frame.payload)
        partial.held += len(frame.payload)
        if partial.held > partial.first.total or (
            not frame.more and partial.held != partial.first.total
        ):
            raise FrameError("the frames of a message do not add up to its length")
        if frame.more:
            return None
        del self._partial[frame.message]
        self._budget.give_back(partial.first.total)
        return msgspec.structs.replace(
            partial.first, payload=b"".join(partial.chunks), message=0, total=0, more=False
        )

    def _begin(self, frame: Envelope) -> _Partial:
        if not 0 < frame.total <= MAX_MESSAGE_BYTES:
            raise FrameError(
                f"a message of {frame.total} bytes is over the {MAX_MESSAGE_BYTES} allowed"
            )
        if frame.message == 0 or len(self._partial) >= MAX_PARTIAL_MESSAGES:
            raise FrameError("too many unfinished messages on one connection")
        self._budget.take(frame.total)
        partial = self._partial[frame.message] = _Partial(frame)
        return partial

    def close(self) -> None:
        """Forget what is unfinished; its connection is gone."""
        for partial in self._partial.values():
            self._budget.give_back(partial.first.total)
        self._partial.clear()
