"""The hub's side of its socket."""

import asyncio
import os
import socket
from collections.abc import Collection
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


def inherited(handles: Collection[int], path: Path) -> socket.socket | None:
    """The socket at `path` among those that a service manager listens on for us; None when it gave none.

    It is the manager's, who made its file and alone removes it. Raises OSError when it gave others only.
    """
    found = None
    for handle in handles:
        listener = socket.socket(fileno=handle)
        name = listener.getsockname() if listener.family == socket.AF_UNIX else None
        if found is None and name == str(path):
            found = listener
        else:
            listener.close()
    if found is not None:
        found.listen(LISTEN_BACKLOG)
        found.setblocking(False)
    elif handles:
        raise OSError(f"the service manager's socket is not {path}; run `lembasd install` again")
    return found


def left_open(handle: int, path: Path) -> socket.socket:
    """The socket at `path` on which an earlier version of this process listened. Raises OSError when it is another."""
    os.set_inheritable(handle, False)
    listener = socket.socket(fileno=handle)
    if listener.family != socket.AF_UNIX or listener.getsockname() != str(path):
        listener.close()
        raise OSError(f"the socket that was left open is not {path}; start lembasd again")
    listener.listen(LISTEN_BACKLOG)
    listener.setblocking(False)
    return listener


async def serve(
    listener: socket.socket, handler: PeerHandler, budget: AssemblyBudget
) -> asyncio.Server:
    """Accept peers on `listener` until the server is closed."""
    loop = asyncio.get_running_loop()
    return await loop.create_unix_server(
        lambda: Peer(handler, budget, accepted=True), sock=listener, backlog=LISTEN_BACKLOG
    )
