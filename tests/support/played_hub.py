"""A hub that this process plays: it holds the locks and answers `_hub/status`, `_hub/stop` and `_hub/reload`."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from lembasd.device.lock import HubLock, Membership
from lembasd.device.paths import Paths
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello


class PlayedHub:
    """Answers with `status`, as a test sets it."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.status = status
        self.refuses_stop = ""
        self.refuses_reload = ""
        #: why it takes nobody's hello
        self.refuses_all = ""
        #: what its status says after a reload; None: it never comes back
        self.reloaded: dict[str, Any] | None = None
        self.stopped: Callable[[], None] = lambda: None

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        refused = self.refuses_all
        peer.send_hello(Hello(role="hub", build="0", pid=os.getpid(), client=1, refused=refused))
        if refused:
            peer.close(refused)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        seen = jsonrpc.peek(message.payload)
        if seen.method == "_hub/reload" and not self.refuses_reload:
            self._reload(peer)
            return
        refused = {"_hub/stop": self.refuses_stop, "_hub/reload": self.refuses_reload}
        if refused.get(seen.method):
            payload = jsonrpc.error(seen.id, -32602, refused[seen.method])
        else:
            payload = jsonrpc.result(seen.id, self.status if seen.method == "_hub/status" else {})
        peer.send(Envelope(kind=kinds.RPC, payload=payload))
        if seen.method == "_hub/stop" and not self.refuses_stop:
            self.stopped()

    def _reload(self, peer: Peer) -> None:
        """As a hub does: whoever is connected is cut off, without an answer."""
        if self.reloaded is None:
            self.stopped()
        else:
            self.status = self.reloaded
        peer.close("another version takes over")

    def peer_writable(self, peer: Peer) -> None: ...

    def peer_lost(self, peer: Peer, reason: str) -> None: ...


@asynccontextmanager
async def played_hub(paths: Paths, status: dict[str, Any]) -> AsyncIterator[PlayedHub]:
    """This process holds the locks and answers, until it is stopped or left."""
    paths.make()
    lock, member = HubLock.acquire(paths), Membership.join(paths)
    played = PlayedHub(status)
    listening = await serve(bind(paths.socket), played, AssemblyBudget())

    def stop() -> None:
        listening.close()
        lock.release()
        member.leave()

    played.stopped = stop
    try:
        yield played
    finally:
        stop()
