"""The link: dials as the dialer says, and hands its connection's messages to the hub."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable
from typing import Final, Protocol, assert_never

from msgspec import Struct

from lembasd.device.credentials import Credentials
from lembasd.link import discovery
from lembasd.link.connection import LinkConnection, TokenRefused, open_connection
from lembasd.link.core import dialer
from lembasd.protocol.lembas import CLOSE_REFUSED

#: how often the clocks are compared, and how far apart they must have moved for a sleep
WAKE_CHECK_S: Final = 5.0
SLEPT_S: Final = 10.0


class LinkHandler(Protocol):
    """The hub's side. Called from the loop; must not block and must not raise."""

    def link_up(self, connection: LinkConnection) -> None:
        """The WebSocket is open: say hello."""

    def link_message(self, connection: LinkConnection, text: bytes) -> None: ...

    def link_writable(self, connection: LinkConnection) -> None: ...

    def link_down(self, connection: LinkConnection, reason: str) -> None:
        """The connection is gone."""


class LinkStatus(Struct, frozen=True):
    """`state`: off (not logged in), dialling, up, waiting, refused. `next_dial_s`: seconds until the next dial."""

    state: str
    server: str | None
    reason: str
    next_dial_s: float | None


_STATES: Final = {
    "idle": "off",
    "dialling": "dialling",
    "open": "up",
    "waiting": "waiting",
    "refused": "refused",
}


class Link:
    """Keeps one WebSocket to the instance of the present login.

    `login` gives the credentials as they are now, None when logged out.
    """

    def __init__(self, handler: LinkHandler, login: Callable[[], Credentials | None]) -> None:
        self._handler = handler
        self._login = login
        self._used: Credentials | None = None
        self._dialer = dialer.Dialer()
        self._connection: LinkConnection | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._attempt = 0
        self._contexts: dict[str, ssl.SSLContext | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def status(self) -> LinkStatus:
        due = self._dialer.next_at
        now = self._loop.time() if self._loop is not None else 0.0
        return LinkStatus(
            state=_STATES[self._dialer.state],
            server=self._used.server if self._used is not None else None,
            reason=self._dialer.reason,
            next_dial_s=None if due is None else round(max(0.0, due - now), 1),
        )

    async def run(self) -> None:
        """Keep the link until cancelled; then it is closed."""
        self._loop = asyncio.get_running_loop()
        self.login_changed()
        try:
            ahead = time.time() - time.monotonic()
            while True:
                await asyncio.sleep(WAKE_CHECK_S)
                # wall time goes on in a sleep, monotonic time does not (on macOS, and Linux' CLOCK_MONOTONIC)
                now_ahead = time.time() - time.monotonic()
                if now_ahead - ahead > SLEPT_S:
                    self._feed(dialer.Woke())
                ahead = now_ahead
        finally:
            self._feed(dialer.LoginGone())

    def login_changed(self) -> None:
        """The login may be another one: look at it, and link with it if it is."""
        if self._loop is None:
            return
        login = self._login()
        if login == self._used and (login is None or self._dialer.state != "idle"):
            return
        self._used = login
        self._feed(dialer.LoginGone() if login is None else dialer.LoginChanged())

    def redial(self) -> None:
        """What hello or initialize said has changed: close and dial again at once."""
        self._feed(dialer.Redial("what the device said of itself has changed"))

    # ── the dialer's effects ────────────────────────────────────────────────────────────────────

    def _feed(self, news: dialer.Input) -> None:
        loop = asyncio.get_running_loop()
        for effect in self._dialer.handle(news, loop.time()):
            match effect:
                case dialer.Dial(attempt):
                    self._attempt = attempt
                    self._cancel_timer()
                    if self._used is not None:
                        self._dialling = loop.create_task(self._dial(attempt, self._used))
                case dialer.SetTimer(attempt, at):
                    self._cancel_timer()
                    self._timer = loop.call_at(at, self._feed, dialer.TimerFired(attempt))
                case dialer.CloseLink(_, reason):
                    self._close(reason)
                case _:
                    assert_never(effect)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, reason: str) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(1000, reason)
            self._handler.link_down(connection, reason)

    async def _dial(self, attempt: int, login: Credentials) -> None:
        news: dialer.Input
        try:
            connection = await self._open(login)
        except TokenRefused as refused:
            news = dialer.DialRefused(attempt, str(refused))
        except (discovery.WrongProtocol, discovery.BadServer) as refused:
            news = dialer.DialRefused(attempt, str(refused))
        except discovery.Unreachable as away:
            chance = random.random()  # noqa: S311 - spreads redials, guards nothing
            news = dialer.DialFailed(attempt, str(away), chance, away.retry_after_s)
        else:
            self._connection = connection
            self._feed(dialer.Opened(attempt))
            self._handler.link_up(connection)
            return
        self._feed(news)

    async def _open(self, login: Credentials) -> LinkConnection:
        server = discovery.base_url(login.server)
        if server not in self._contexts:
            try:
                self._contexts[server] = await asyncio.to_thread(discovery.tls_context, server)
            except (OSError, ssl.SSLError) as error:
                raise discovery.Unreachable(
                    f"the machine's certificates cannot be read: {error}"
                ) from error
        context = self._contexts[server]
        async with discovery.client(context) as http:
            await discovery.discover(http, server)
        return await open_connection(self, server, login.token, context)

    # ── ConnectionHandler ───────────────────────────────────────────────────────────────────────

    def link_message(self, connection: LinkConnection, text: bytes) -> None:
        self._handler.link_message(connection, text)

    def link_writable(self, connection: LinkConnection) -> None:
        self._handler.link_writable(connection)

    def connection_closed(self, connection: LinkConnection, code: int, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._handler.link_down(connection, reason)
        chance = random.random()  # noqa: S311 - spreads redials, guards nothing
        refused = code == CLOSE_REFUSED
        if refused:
            reason = (
                f"{reason or 'the instance refuses this version'}; update lembasd or the server"
            )
        self._feed(dialer.Closed(self._attempt, reason, chance, refused))
