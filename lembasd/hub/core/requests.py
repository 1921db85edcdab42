"""The requests that the hub has passed on and that are not answered yet: each is answered exactly once."""

from msgspec import Struct
from msgspec.structs import replace

from lembasd.hub.core.methods import Target
from lembasd.protocol.control import Attached


class Pending(Struct, frozen=True):
    """One request of a client. `id` is its own id as JSON text; `process` whose answer it waits for."""

    number: int
    client: int
    id: bytes
    method: str
    target: Target
    #: the session or terminal it is about
    channel: str
    #: the channel of the process that is to answer it: `channel` itself, or UTILITY
    process: str


class Waiting(Struct, frozen=True):
    """A client's message that waits until the process of its channel has said hello.

    `number` 0: a notification. `attach`: the client is attached first; with no text the hub answers it itself.
    """

    number: int
    client: int
    method: str
    target: Target
    #: the session or terminal it is about
    channel: str
    text: bytes
    attach: Attached | None = None


class Requests:
    """Numbers requests and remembers them until they are answered. `first` is a random start (see Envelope.client)."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._pending: dict[int, Pending] = {}
        self._open: dict[int, int] = {}

    def open(
        self, client: int, message_id: bytes, method: str, target: Target, channel: str
    ) -> Pending:
        """A request to be answered by the process of `channel`."""
        self._next += 1
        pending = Pending(self._next, client, message_id, method, target, channel, channel)
        self._pending[pending.number] = pending
        self._open[client] = self._open.get(client, 0) + 1
        return pending

    def moved(self, number: int, process: str) -> None:
        """Another process is to answer it."""
        pending = self._pending.get(number)
        if pending is not None:
            self._pending[number] = replace(pending, process=process)

    def get(self, number: int) -> Pending | None:
        return self._pending.get(number)

    def take(self, number: int, client: int) -> Pending | None:
        """The request that is answered now; None when it was answered before or its client is gone."""
        pending = self._pending.get(number)
        if pending is None or pending.client != client:
            return None
        self._open[client] -= 1
        return self._pending.pop(number)

    def of_process(self, process: str) -> list[Pending]:
        return [pending for pending in self._pending.values() if pending.process == process]

    def count(self, client: int) -> int:
        """Requests of the client that are not answered yet."""
        return self._open.get(client, 0)

    def client_left(self, client: int) -> None:
        """Nobody waits for these answers any more."""
        if self._open.pop(client, 0):
            for pending in list(self._pending.values()):
                if pending.client == client:
                    del self._pending[pending.number]

    def __len__(self) -> int:
        return len(self._pending)
