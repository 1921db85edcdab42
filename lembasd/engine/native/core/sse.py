"""Server-sent events from bytes, by the rules of the HTML standard (9.2.6): CR, LF or CRLF, cut anywhere."""

from lembasd.protocol.errors import LembasError
from lembasd.protocol.limits import MIB

#: a line or an event longer than this is no chat completion chunk
MAX_EVENT_BYTES = 16 * MIB


class EventTooLong(LembasError):
    """The server sends a line or an event over the bound."""


class EventStream:
    """Feed bytes, get the `data` of each finished event. Event names, ids and retry times mean nothing here."""

    def __init__(self) -> None:
        #: the pieces of a line that is not over
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` finishes. Raises EventTooLong."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        self._rest.append(chunk)
        self._rest_bytes += len(chunk)
        if self._begun and b"\n" not in chunk and b"\r" not in chunk:
            # joined once it is over: a long line in many pieces costs no more than its length
            self._check_rest()
            return []
        buffer = b"".join(self._rest)
        if not self._begun and len(buffer) >= 3:
            self._begun = True
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
        # bytes.splitlines knows CR, LF and CRLF and nothing else
        lines = buffer.splitlines(keepends=True)
        self._rest, self._rest_bytes = [], 0
        if lines and lines[-1][-1:] not in (b"\n", b"\r"):
            self._rest, self._rest_bytes = [lines[-1]], len(lines.pop())
        self._check_rest()
        found: list[bytes] = []
        for line in lines:
            event = self._line(line.rstrip(b"\r\n"))
            if event is not None:
                found.append(event)
        return found

    def _check_rest(self) -> None:
        if self._rest_bytes > MAX_EVENT_BYTES:
            raise EventTooLong("the model's server sends a line without end")

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            event = b"\n".join(self._data)
            self._data, self._data_bytes = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._data_bytes += len(value)
            if self._data_bytes > MAX_EVENT_BYTES:
                raise EventTooLong("the model's server sends an event without end")
        return None

    def end(self) -> list[bytes]:
        """What a server that forgot the last empty line meant to say."""
        rest = b"".join(self._rest)
        found = [self._line(rest), self._line(b"")] if rest or self._data else []
        self._rest, self._rest_bytes = [], 0
        return [event for event in found if event is not None]
