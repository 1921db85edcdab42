"""Which clients look at which session or terminal.

An attachment outlives the worker: who is attached to a session is attached to the next worker of it too.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lembasd.protocol.control import Attached


class Audience(Struct, frozen=True):
    """The clients that a message goes to: `everyone`, those that are LLeMbas clients, and those of these on this machine."""

    everyone: tuple[int, ...] = ()
    lembas: tuple[int, ...] = ()
    local: tuple[int, ...] = ()


NOBODY: Final = Audience()


class Attachments:
    """Sessions and terminals, and the clients attached to each."""

    def __init__(self) -> None:
        self._by_channel: dict[str, dict[int, Attached]] = {}
        self._audiences: dict[str, Audience] = {}

    def attach(self, channel: str, attached: Attached) -> None:
        """From now on `attached.client` looks at the channel; attaching again replaces what it said."""
        self._by_channel.setdefault(channel, {})[attached.client] = attached
        self._count(channel)

    def detach(self, channel: str, client: int) -> None:
        self._by_channel.get(channel, {}).pop(client, None)
        self._count(channel)

    def speaks(self, client: int, protocol: int) -> dict[str, Attached]:
        """The client speaks another protocol than it said; what it is now, by the channels it looks at."""
        changed = {
            channel: replace(clients[client], protocol=protocol)
            for channel, clients in self._by_channel.items()
            if client in clients
        }
        for channel, attached in changed.items():
            self.attach(channel, attached)
        return changed

    def channels_of(self, client: int) -> list[str]:
        return [channel for channel, clients in self._by_channel.items() if client in clients]

    def channel_ended(self, channel: str) -> None:
        """The channel will never come back."""
        self._by_channel.pop(channel, None)
        self._audiences.pop(channel, None)

    def of(self, channel: str) -> list[Attached]:
        return list(self._by_channel.get(channel, {}).values())

    def find(self, channel: str, client: int) -> Attached | None:
        return self._by_channel.get(channel, {}).get(client)

    def is_attached(self, channel: str, client: int) -> bool:
        return client in self._by_channel.get(channel, {})

    def audience(self, channel: str) -> Audience:
        """Whom a broadcast of the channel goes to (read for each message: a look-up, nothing more)."""
        return self._audiences.get(channel, NOBODY)

    def _count(self, channel: str) -> None:
        clients = self._by_channel.get(channel)
        if not clients:
            self.channel_ended(channel)
            return
        lembas = tuple(number for number, attached in clients.items() if attached.protocol)
        local = tuple(number for number in lembas if clients[number].local)
        self._audiences[channel] = Audience(tuple(clients), lembas, local)
