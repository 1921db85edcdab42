"""The link: dials as the dialer says, and hands its connection's messages to the hub."""

import asyncio
import random
import ssl
from collections.abc import Callable
from typing import Final, Protocol, assert_never

from msgspec import Struct

from lembasd.device import logging
from lembasd.device.credentials import Credentials
from lembasd.link import discovery
from lembasd.link.clocks import slept_s
from lembasd.link.connection import (
    LinkConnection,
    TokenRefused,
    open_connection,
)
from lembasd.link.core import dialer
from lembasd.link.core.liveness import PING_INTERVAL_S, PONG_TIMEOUT_S
from lembasd.protocol.lembas import CLOSE_REFUSED

#: how often the clocks are compared, and how far apart they must have moved for a sleep that cost the connection
WAKE_CHECK_S: Final = 5.0
SLEPT_S: Final = 10.0
#: discovery and the handshake together: an instance that trickles its answers is away as well
DIAL_S: Final = 60.0
#: RFC 6455, 7.4.1: a normal close
CLOSE_NORMAL: Final = 1000


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

    def __init__(
        self,
        handler: LinkHandler,
        login: Callable[[], Credentials | None],
        *,
        random: Callable[[], float] = random.random,
        slept_s: Callable[[], float] = slept_s,
        wake_check_s: float = WAKE_CHECK_S,
        ping_interval_s: float = PING_INTERVAL_S,
        pong_timeout_s: float = PONG_TIMEOUT_S,
        dial_s: float = DIAL_S,
    ) -> None:
        self._random = random
        self._slept_s = slept_s
        self._wake_check_s = wake_check_s
        self._ping_interval_s = ping_interval_s
        self._pong_timeout_s = pong_timeout_s
        self._dial_s = dial_s
        self._log = logging.logger()
        self._told = ("", "")
        #: called when `status` has changed
        self.on_change: Callable[[], None] = lambda: None
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
            slept = self._slept_s()
            while True:
                await asyncio.sleep(self._wake_check_s)
                self.login_changed()
                before, slept = slept, self._slept_s()
                if slept - before > SLEPT_S:
                    self._feed(dialer.Woke())
        finally:
            self._feed(dialer.LoginGone("the hub ends"))

    def login_changed(self) -> None:
        """The login may be another one: look at it, and link with it if it is."""
        if self._loop is None:
            return
        login = self._login()
        if login == self._used and (login is None or self._dialer.state != "idle"):
            return
        self._used = login
        self._feed(dialer.LoginGone() if login is None else dialer.LoginChanged())

    def login_written(self) -> None:
        """The login was written anew, perhaps as it was: a link that was refused for it is tried again."""
        self.login_changed()
        if self._dialer.state == "refused":
            self._feed(dialer.LoginChanged())

    def redial(self) -> None:
        """What hello or initialize said has changed: close and dial again at once."""
        self._feed(dialer.Redial("what the device said of itself has changed"))

    # ── the dialer's effects ────────────────────────────────────────────────────────────────────

    def _feed(self, news: dialer.Input) -> None:
        loop = asyncio.get_running_loop()
        effects = self._dialer.handle(news, loop.time())
        self._tell()
        for effect in effects:
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
        self.on_change()

    def _tell(self) -> None:
        """Log why there is no link, once for each reason."""
        told = (self._dialer.state, self._dialer.reason)
        if told == self._told or not self._dialer.reason:
            return
        self._told = told
        if self._dialer.state == "refused":
            self._log.warning("link_refused", error=self._dialer.reason)
        else:
            self._log.warning("link_waits", error=self._dialer.reason)

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
            connection.close(CLOSE_NORMAL, reason)
            self._handler.link_down(connection, reason)

    async def _dial(self, attempt: int, login: Credentials) -> None:
        news: dialer.Input
        try:
            async with asyncio.timeout(self._dial_s):
                await self._open(attempt, login)
        except TimeoutError:
            away = f"the instance did not answer within {self._dial_s:g} s; see that it runs, and check the network"
            news = dialer.DialFailed(attempt, away, self._random())
        except (TokenRefused, discovery.WrongProtocol, discovery.BadServer) as refused:
            news = dialer.DialRefused(attempt, str(refused))
        except discovery.Unreachable as error:
            news = dialer.DialFailed(attempt, str(error), self._random(), error.retry_after_s)
        except Exception as bug:  # noqa: BLE001
            # a link that would never dial again is worse than one that says it met a bug
            self._log.exception("link_dial_broke")
            what = f"dialling broke ({type(bug).__name__}); see the log"
            news = dialer.DialFailed(attempt, what, self._random())
        else:
            return  # `connection_opened` has told it
        self._dialling = None
        self._feed(news)
        # the login may have been replaced while it was refused
        self.login_changed()

    async def _open(self, attempt: int, login: Credentials) -> None:
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
        await open_connection(
            self,
            server,
            login.token,
            context,
            attempt=attempt,
            ping_interval_s=self._ping_interval_s,
            pong_timeout_s=self._pong_timeout_s,
            slept_s=self._slept_s,
        )

    # ── ConnectionHandler: what an abandoned dial's connection says counts no more ──────────────

    def connection_opened(self, connection: LinkConnection) -> None:
        if connection.attempt != self._attempt or self._dialling is None:
            connection.close(CLOSE_NORMAL, "")
            return
        self._connection, self._dialling = connection, None
        self._feed(dialer.Opened(connection.attempt))
        self._handler.link_up(connection)

    def link_message(self, connection: LinkConnection, text: bytes) -> None:
        if connection is self._connection:
            self._handler.link_message(connection, text)

    def link_writable(self, connection: LinkConnection) -> None:
        if connection is self._connection:
            self._handler.link_writable(connection)

    def connection_closed(self, connection: LinkConnection, code: int, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._handler.link_down(connection, reason)
        if code == CLOSE_REFUSED:
            reason = (
                f"the server does not take link protocol 3 (it said: {reason}); "
                "update the server to LLeMbas 2.0, or this device if it says so, "
                "then run `lembas login` again"
            )
        self._feed(dialer.Closed(connection.attempt, reason, self._random(), code))
