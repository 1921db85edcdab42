"""Dialling the hub socket."""

import asyncio
import errno
from pathlib import Path
from typing import Final

from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.peer import Peer, PeerHandler
from lembasd.protocol.errors import LembasError
from lembasd.protocol.hello import Hello

#: what "no hub" looks like from a socket call (research/process_lifetimes.md, 7)
_NO_HUB: Final = {errno.ECONNREFUSED, errno.ENOENT, errno.EPIPE, errno.ECONNRESET, errno.ENOTSOCK}
#: a full accept queue: EAGAIN from uvloop, EINVAL from asyncio (process_lifetimes.md, 10)
_BUSY: Final = {errno.EAGAIN, errno.EINVAL}
#: a hub that stays busy for this long is as good as none
_BUSY_WAIT_S: Final = 5.0
_BUSY_STEP_S: Final = 0.02


class NoHub(LembasError):
    """Nobody listens on the socket."""


class HubRefuses(NoHub):
    """A hub is there and takes nothing of this process; its sentence says why."""


async def connect(
    path: Path, hello: Hello, handler: PeerHandler, budget: AssemblyBudget | None = None
) -> Peer:
    """Connect, send `hello`, return the peer; the hub's hello comes to the handler.

    Raises NoHub when nobody listens or the hub stays busy, PermissionError where the socket may not be used.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _BUSY_WAIT_S
    shared = budget or AssemblyBudget()
    while True:
        try:
            _transport, peer = await loop.create_unix_connection(
                lambda: Peer(handler, shared), str(path)
            )
        except OSError as error:
            if error.errno in _BUSY and loop.time() < give_up:
                await asyncio.sleep(_BUSY_STEP_S)
                continue
            if error.errno in _NO_HUB or error.errno in _BUSY:
                raise NoHub(f"no hub listens on {path}; start one with `lembasd run`") from error
            raise
        peer.send_hello(hello)
        return peer
