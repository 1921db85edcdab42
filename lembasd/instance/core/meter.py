"""What an answer to a chat completion says of the tokens that it took, read while it passes. Pure."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.engine.native.core.levels import Price, cost
from lembasd.engine.native.core.reply import Usage
from lembasd.engine.native.core.sse import EventStream, EventTooLong
from lembasd.protocol.limits import MIB

#: a whole answer that is longer is passed on and not counted
MAX_WHOLE_BYTES: Final = 16 * MIB
#: of one answer; more is no number of tokens
MAX_TOKENS: Final = 1_000_000_000
_EVENTS: Final = "text/event-stream"


class Taken(Struct, frozen=True):
    """What one answer took; `cost` is an amount and its currency, None where nothing is known of a price."""

    tokens_in: int
    tokens_out: int
    cost: tuple[float, str] | None = None


class _Answer(Struct, frozen=True):
    usage: dict[str, Any] | None = None


class Meter:
    """Feed the answer's bytes as they pass, then ask what it took."""

    def __init__(self, content_type: str) -> None:
        self._events = EventStream() if _EVENTS in content_type.lower() else None
        self._whole = bytearray()
        self._lost = False
        self._usage: dict[str, Any] | None = None

    def feed(self, piece: bytes) -> None:
        """Take the next bytes. What cannot be read is not counted."""
        if self._lost:
            return
        try:
            if self._events is None:
                self._whole += piece
                if len(self._whole) > MAX_WHOLE_BYTES:
                    raise EventTooLong("a whole answer without end")
            else:
                for event in self._events.feed(piece):
                    self._read(event)
        except EventTooLong:
            self._lost = True
            self._whole.clear()

    def _read(self, text: bytes) -> None:
        if b'"usage"' not in text:
            return
        try:
            usage = msgspec.json.decode(text, type=_Answer).usage
        except (msgspec.MsgspecError, RecursionError):
            return
        # servers that count as they stream count from the start each time: the last one stands
        self._usage = usage if usage is not None else self._usage

    def taken(self, price: Price | None) -> Taken | None:
        """What it took, None where the answer does not say. `price` is the model's."""
        if self._events is None:
            self._read(bytes(self._whole))
        usage = self._usage
        if usage is None or self._lost:
            return None
        details = usage.get("prompt_tokens_details")
        used = Usage(
            input=_count(usage.get("prompt_tokens")),
            output=_count(usage.get("completion_tokens")),
            cached=_count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
            cost=_amount(usage.get("cost")),
        )
        return Taken(used.input, used.output, cost(used, price))


def _count(value: Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= MAX_TOKENS else 0


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MAX_TOKENS else None
