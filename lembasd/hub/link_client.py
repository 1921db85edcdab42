"""The link as one of the hub's clients: its hello, its messages, and when it has to say hello anew."""

import asyncio
from contextlib import suppress
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from lembasd.device import milestones
from lembasd.hub.introduction import initialize_result, link_hello
from lembasd.hub.runner import Hub
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Extensions, Settings
from lembasd.protocol.envelope import Envelope

#: close code for a client that is too far behind
CLOSE_TRY_AGAIN: Final = 1013
#: close code for a device whose hub starts anew, and is there again at once
CLOSE_RESTART: Final = 1012


class Connection(Protocol):
    """One WebSocket of the link (lembasd.link)."""

    @property
    def has_room(self) -> bool: ...

    def send(self, payload: bytes) -> None: ...

    def close(self, code: int, reason: str) -> None: ...


#: how a message begins that is of the hub's own dialect: no instance knows it, unless it asked for numbers
_OWN: Final = b'{"jsonrpc":"2.0","method":"_hub/'
_NOTIFICATION: Final = b'{"jsonrpc":"2.0","method":'
_END: Final = b"}}"


def _numbered(message: Envelope) -> bytes:
    """A session's notification with its number in `params._meta.lembas.seq`, put in without reading the rest."""
    payload = message.payload
    if not message.seq or not payload.startswith(_NOTIFICATION) or not payload.endswith(_END):
        return payload
    number = b',"_meta":{"lembas":{"seq":"%d:%d"}}' % (message.epoch, message.seq)
    return payload[: -len(_END)] + number + _END


class Redialler(Protocol):
    def redial(self) -> None:
        """Close the connection and dial again at once."""


class LinkSink:
    """The socket of the link's client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        #: the client asked for numbers
        self._numbers = False

    def asked(self, extensions: Extensions) -> None:
        self._numbers = extensions.replay

    @property
    def room(self) -> bool:
        return self._connection.has_room

    def put(self, message: Envelope) -> None:
        if self._numbers:
            self._connection.send(_numbered(message))
        elif not message.payload.startswith(_OWN):
            self._connection.send(message.payload)

    def cut(self, last: list[bytes]) -> None:
        for payload in last if self._numbers else []:
            self._connection.send(payload)
        self._connection.close(CLOSE_TRY_AGAIN, "too far behind; try again later")


class _Up(Struct):
    connection: Connection
    number: int
    settings: Settings
    said: bytes


class LinkClient:
    """The link's handler. At most one connection is up."""

    def __init__(self, hub: Hub, log: FilteringBoundLogger) -> None:
        self._hub = hub
        self._log = log
        self._up: _Up | None = None
        self._down = asyncio.Event()
        self.redialler: Redialler | None = None

    @property
    def number(self) -> int | None:
        """The client number of the connection that is up."""
        return self._up.number if self._up is not None else None

    # ── lembasd.link.LinkHandler ────────────────────────────────────────────────────────────────

    def link_up(self, connection: Connection) -> None:
        self._hub.refresh_settings()
        settings = self._hub.router.table.settings
        number = self._hub.client_joined(LinkSink(connection), local=False)
        self._up = _Up(connection, number, settings, _said(settings))
        connection.send(jsonrpc.notification("_lembas/hello", link_hello(settings)))
        self._hub.counts.link_ups += 1
        self._log.info("link_up", client_id=number)
        milestones.reached("hub.link_up", client_id=number)

    def link_message(self, connection: Connection, text: bytes) -> None:
        if self._up is not None and self._up.connection is connection:
            self._hub.client_said(self._up.number, text)

    def link_writable(self, connection: Connection) -> None:
        if self._up is not None and self._up.connection is connection:
            self._hub.ports[self._up.number].pump()

    def link_down(self, connection: Connection, reason: str) -> None:
        if self._up is None or self._up.connection is not connection:
            return
        number, self._up = self._up.number, None
        self._down.set()
        self._hub.client_left(number)
        self._log.info("link_down", client_id=number, error=reason)
        milestones.reached("hub.link_down", client_id=number)

    async def close(self, within_s: float) -> None:
        """Close the link, for another version is about to take it up; wait for its end, but not longer than this."""
        if self._up is None:
            return
        self._down.clear()
        self._up.connection.close(CLOSE_RESTART, "lembasd is being updated")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._down.wait(), within_s)

    # ── what was said ───────────────────────────────────────────────────────────────────────────

    def changed(self) -> None:
        """Settings or sessions changed: once no session works, a link that said something else dials again."""
        up = self._up
        settings = self._hub.router.table.settings
        if up is None or up.settings is settings or self._hub.router.table.busy:
            return
        if up.said == _said(settings):
            up.settings = settings
            return
        self._log.info("link_redial", reason="what the device said of itself has changed")
        if self.redialler is not None:
            self.redialler.redial()


def _said(settings: Settings) -> bytes:
    """Everything that hello and initialize say, as one value to compare."""
    return msgspec.json.encode((link_hello(settings), initialize_result(settings, local=False)))
