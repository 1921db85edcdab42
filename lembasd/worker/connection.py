"""A worker's connection to its hub: dialled, and dialled again for as long as there is no hub."""

import asyncio
import os
from collections.abc import Callable
from typing import Final, Protocol

from lembasd import __version__
from lembasd.device import process_tree
from lembasd.device.lock import may_be_dialled
from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.ipc.connect import NoHub, connect
from lembasd.ipc.peer import Peer
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import PROTOCOL, Hello, common_protocol
from lembasd.store import agents

#: the first wait after a hub was lost, and the longest: a new hub is found within a second
REDIAL_FIRST_S: Final = 0.1
REDIAL_LONGEST_S: Final = 1.0
#: what is left to send when a worker ends gets so long; a hub that reads takes it in milliseconds
FLUSH_S: Final = 2.0


class HubHandler(Protocol):
    """What happens on the connection. Called from the loop; must not block."""

    def hub_hello(self) -> Hello:
        """What to say first: the process' account of itself as it is now."""

    def hub_joined(self) -> None:
        """The hub's hello came: it takes messages from now on."""

    def hub_unspeakable(self) -> None:
        """A hub is there that speaks no version of the protocol that this process does."""

    def hub_message(self, message: Envelope) -> None: ...

    def hub_writable(self) -> None:
        """The socket takes what is sent at once again."""

    def hub_lost(self, reason: str) -> None:
        """The hub is gone; another one is looked for. Called once for each hub_joined."""

    def stop_was_meant(self) -> None:
        """There is no hub, and the marker says that this is meant: end."""


class Connection:
    """Keeps one process connected to the install's hub; its `stopping` marker ends a process that has none."""

    def __init__(self, paths: Paths, handler: HubHandler) -> None:
        self._paths = paths
        self._handler = handler
        self._peer: Peer | None = None
        self._joined = False
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        #: the version of the first hub that there was
        self._first_build = ""
        #: the hub that is there is another version than this process, and than the hub that started it
        self.superseded = False
        #: the sentence with which the hub refused this process, "" when it did not
        self.refused = ""

    async def run(self) -> None:
        """Dial until cancelled."""
        wait_s = REDIAL_FIRST_S
        while True:
            if await self._dial():
                await self._lost.wait()
                wait_s = REDIAL_FIRST_S if not self.refused else wait_s
            if self._paths.stopping.exists():
                self._handler.stop_was_meant()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, REDIAL_LONGEST_S)

    async def _dial(self) -> bool:
        self._lost.clear()
        if not may_be_dialled(self._paths):
            reached("worker.found_no_hub")
            return False
        try:
            self._peer = await connect(self._paths.socket, self._handler.hub_hello(), self)
        except (NoHub, OSError):
            return False
        return True

    @property
    def joined(self) -> bool:
        """Whether there is a hub."""
        return self._joined

    @property
    def ready(self) -> bool:
        """Whether what is sent now goes to the socket at once."""
        return self._joined and self._peer is not None and self._peer.writable

    def send(self, message: Envelope) -> None:
        """Send a message in its turn. Does nothing without a hub."""
        if self._joined and self._peer is not None:
            self._peer.send(message)

    def control(self, frame: Envelope) -> None:
        """Send a small frame before everything that waits. Does nothing without a hub."""
        if self._joined and self._peer is not None:
            self._peer.send_control(frame)

    def answer_unknown(self, message: Envelope) -> None:
        if self._peer is not None:
            self._peer.answer_unknown(message)

    async def finish(self, pending: Callable[[], bool]) -> None:
        """Let the hub take what is left (`pending`: something is not even given to the socket), then close."""
        try:
            async with asyncio.timeout(FLUSH_S):
                while self._joined and (pending() or not self.ready):
                    self._writable.clear()
                    await self._writable.wait()
                if self._peer is not None and self._peer.is_open:
                    self._peer.close()
                    await self._lost.wait()
        except TimeoutError:
            pass  # the hub does not read: it learns of the end by the process' own

    # ── PeerHandler ─────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.refused = hello.refused
        if self._is_agents(peer.pid):
            # an agent that plays the hub would answer its own cards
            self.refused = "what listens on the hub's socket is a session's own process"
            peer.close(self.refused)
        elif common_protocol(PROTOCOL, hello.protocol) is None:
            self._handler.hub_unspeakable()
        elif not hello.refused:
            self._first_build = self._first_build or hello.build
            self.superseded = hello.build not in (self._first_build, __version__)
            self._joined = True
            self._handler.hub_joined()

    def _is_agents(self, hub: int | None) -> bool:
        # the hub that this process was started by is the usual one, and cheap to know
        starter = os.getppid()
        if hub is None or hub == starter or process_tree.parent(starter) == hub:
            return False
        return agents.is_below_worker(self._paths, hub)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        self._handler.hub_message(message)

    def peer_writable(self, peer: Peer) -> None:
        if self._joined:
            self._handler.hub_writable()
        self._writable.set()

    def peer_lost(self, peer: Peer, reason: str) -> None:
        joined, self._joined = self._joined, False
        self._peer = None
        self._lost.set()
        self._writable.set()
        if joined:
            self._handler.hub_lost(reason)
