"""The hub's side of its socket."""

import asyncio
import os
import socket
from pathlib import Path

from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.peer import Peer, PeerHandler
from lembasd.protocol.limits import LISTEN_BACKLOG


def bind(path: Path) -> socket.socket:
    """A listening Unix socket at `path`, 0600. The caller holds the hub lock: what lies there is stale.

    Raises OSError, among others when the path is too long for the platform.
    """
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        previous = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(previous)
        listener.listen(LISTEN_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


async def serve(
    listener: socket.socket, handler: PeerHandler, budget: AssemblyBudget
) -> asyncio.Server:
    """Accept peers on `listener` until the server is closed."""
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(
        lambda: Peer(handler, budget, accepted=True), sock=listener, backlog=LISTEN_BACKLOG
    )
