"""A hub that this process plays: it holds the locks and answers `_hub/status` and `_hub/stop`."""

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
        self.stopped: Callable[[], None] = lambda: None

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        peer.send_hello(Hello(role="hub", build="0", pid=os.getpid(), client=1))

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        seen = jsonrpc.peek(message.payload)
        if seen.method == "_hub/stop" and self.refuses_stop:
            payload = jsonrpc.error(seen.id, -32602, self.refuses_stop)
        else:
            payload = jsonrpc.result(seen.id, self.status if seen.method == "_hub/status" else {})
        peer.send(Envelope(kind=kinds.RPC, payload=payload))
        if seen.method == "_hub/stop" and not self.refuses_stop:
            self.stopped()

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
