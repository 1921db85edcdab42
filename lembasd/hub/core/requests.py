"""The requests that the hub has passed on and that are not answered yet: each is answered exactly once."""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lembasd.hub.core.methods import REOPENS, Target
from lembasd.protocol.acp import PromptMeta
from lembasd.protocol.control import Attached
from lembasd.protocol.limits import MIB

#: bytes of unanswered prompts that are kept, all together, to be given to a session's next process. One that has no room
#: is answered with an error that says to send it again when its process ends
MAX_KEPT_BYTES: Final = 16 * MIB


class _Named(Struct, frozen=True):
    meta: PromptMeta = msgspec.field(name="_meta", default=PromptMeta())


class _Prompt(Struct, frozen=True):
    params: _Named


_prompt: Final = msgspec.json.Decoder(_Prompt)


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
    #: of a prompt: its whole text, where there was room to keep it
    text: bytes = b""
    #: of an attach: the last message that the client saw
    since: str | None = None

    @property
    def names_its_turn(self) -> bool:
        """Whether a session that is given it twice knows it again (and it was kept)."""
        try:
            return bool(_prompt.decode(self.text).params.meta.lembas.turnId)
        except (msgspec.MsgspecError, RecursionError):
            return False


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
    #: it was given to a process that ended: it opens no session that was closed for such ends
    again: bool = False


class Requests:
    """Numbers requests and remembers them until they are answered. `first` is a random start (see Envelope.client)."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._pending: dict[int, Pending] = {}
        self._open: dict[int, int] = {}
        self._kept_bytes = 0

    def open(
        self,
        client: int,
        message_id: bytes,
        method: str,
        target: Target,
        channel: str,
        text: bytes = b"",
    ) -> Pending:
        """A request to be answered by the process of `channel`; `text` is the whole message."""
        self._next += 1
        if method != REOPENS or self._kept_bytes + len(text) > MAX_KEPT_BYTES:
            text = b""
        self._kept_bytes += len(text)
        pending = Pending(self._next, client, message_id, method, target, channel, channel, text)
        self._pending[pending.number] = pending
        self._open[client] = self._open.get(client, 0) + 1
        return pending

    def moved(self, number: int, process: str) -> None:
        """Another process is to answer it."""
        pending = self._pending.get(number)
        if pending is not None:
            self._pending[number] = replace(pending, process=process)

    def saw(self, number: int, since: str | None) -> None:
        """It is an attach of a client that saw this message last."""
        self._pending[number] = replace(self._pending[number], since=since)

    def get(self, number: int) -> Pending | None:
        return self._pending.get(number)

    def take(self, number: int, client: int) -> Pending | None:
        """The request that is answered now; None when it was answered before or its client is gone."""
        pending = self._pending.get(number)
        if pending is None or pending.client != client:
            return None
        self._open[client] -= 1
        self._kept_bytes -= len(pending.text)
        return self._pending.pop(number)

    @property
    def quiet(self) -> bool:
        """Whether none is open that will soon be answered: prompts alone take as long as their turns."""
        return all(one.method == REOPENS for one in self._pending.values())

    def of_process(self, process: str) -> list[Pending]:
        return [pending for pending in self._pending.values() if pending.process == process]

    def of_client(self, client: int) -> list[Pending]:
        return [pending for pending in self._pending.values() if pending.client == client]

    def count(self, client: int) -> int:
        """Requests of the client that are not answered yet."""
        return self._open.get(client, 0)

    def client_left(self, client: int) -> None:
        """Nobody waits for these answers any more."""
        if self._open.pop(client, 0):
            for pending in self.of_client(client):
                self._kept_bytes -= len(pending.text)
                del self._pending[pending.number]

    def __len__(self) -> int:
        return len(self._pending)
