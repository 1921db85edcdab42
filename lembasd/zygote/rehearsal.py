"""A zygote opens and ends a few sessions of its own before it forks: what the first ones pay for is then paid.

The interpreter writes into what it runs (caches in the code, key tables of classes, names it has looked up), and a
page that a forked worker writes to is a page of its own. After a rehearsal most of it is written: an idle worker is
0.4 MB smaller, and starts faster. Linux only, as zygotes are; nothing is left of it but a warm process.
"""

import asyncio
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from lembasd import __version__
from lembasd.device import logging, milestones, runtime
from lembasd.device.paths import Paths
from lembasd.engine.native import listing
from lembasd.engine.native.choosing import choose
from lembasd.engine.native.engine import NativeEngine
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import ids, jsonrpc
from lembasd.protocol.control import Account, Attached, Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello
from lembasd.protocol.spawn import Assignment
from lembasd.store import model_lists
from lembasd.worker.runner import Worker

#: CPython rewrites a function for speed at its eighth call
ROUNDS: Final = 10
#: the rehearsal is given up then: it is a matter of speed alone
LONGEST_S: Final = 5.0
_MODELS: Final = b'{"data":[{"id":"none"}]}'
#: what a worker does after its answer (it measures itself) is done by then
_LINGER_S: Final = 0.005


def rehearse() -> None:
    """Open and end ROUNDS sessions in a scratch directory. Never raises for what the machine lacks."""
    told = os.environ.pop(milestones.VARIABLE, None)  # tests wait for real ones
    try:
        base = Path(tempfile.mkdtemp(prefix="lembas-"))
        try:
            _in_directory(base)
        finally:
            shutil.rmtree(base, ignore_errors=True)
    except (OSError, TimeoutError):
        pass  # no room: the first workers pay for it
    finally:
        if told is not None:
            os.environ[milestones.VARIABLE] = told


def _in_directory(base: Path) -> None:
    paths = Paths(config=base / "c", state=base / "s", run=base / "r")
    paths.make()
    log = logging.configure("worker", paths)
    try:
        runtime.run(lambda: _rounds(paths))
    finally:
        log.close()


async def _rounds(paths: Paths) -> None:
    account = await _ask_for_models()
    model_lists.keep(paths, account, _MODELS, time.time())
    hub = _Hub(str(paths.run), account)
    server = await serve(bind(paths.socket), hub, AssemblyBudget())
    try:
        async with asyncio.timeout(LONGEST_S):
            for number in range(ROUNDS):
                session = ids.session_id(os.urandom(ids.SESSION_RANDOM_BYTES))
                assignment = Assignment(spawn=number, role="worker", channel=session, new=True)
                await Worker(assignment, paths, NativeEngine, choose).run()
    finally:
        server.close()


async def _ask_for_models() -> Account:
    """Ask a server of our own ROUNDS times, as a turn asks the instance's; the login at it."""
    # made here: the loop would look the address up in a thread, and with a second thread there is no fork
    listening = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.start_server(_answer, sock=listening)
    account = Account(f"http://127.0.0.1:{listening.getsockname()[1]}", "none")
    try:
        async with asyncio.timeout(LONGEST_S):
            for _ in range(ROUNDS):
                client = listing.client()
                await client.models(account)
                await client.aclose()
    finally:
        server.close()
    return account


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_MODELS), _MODELS))
    await reader.read()
    writer.close()


class _Hub:
    """The least that a worker needs: it asks for a session, and has the worker end when it has one."""

    def __init__(self, cwd: str, account: Account) -> None:
        self._new = jsonrpc.request(1, "session/new", {"cwd": cwd, "mcpServers": []})
        self._settings = msgspec.json.encode(Settings(account=account, model="none"))
        self._attached = msgspec.json.encode(Attached(1, protocol=3, local=True))

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        session = hello.session.session_id if hello.session is not None else ""
        peer.send_hello(Hello(role="hub", build=__version__, pid=os.getpid()))
        for kind, request, payload in (
            (kinds.SETTINGS, 0, self._settings),
            (kinds.ATTACHED, 0, self._attached),
            (kinds.RPC, 1, self._new),
        ):
            peer.send(
                Envelope(kind=kind, channel=session, client=1, request=request, payload=payload)
            )

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == kinds.RPC and message.request:
            stop = Envelope(kind=kinds.STOP, channel=message.channel)
            asyncio.get_running_loop().call_later(_LINGER_S, peer.send, stop)

    def peer_writable(self, peer: Peer) -> None: ...

    def peer_lost(self, peer: Peer, reason: str) -> None: ...
