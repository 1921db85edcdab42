"""The PTY process: finds its hub, serves one terminal, ends with it."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from lembasd import __version__
from lembasd.device import logging, runtime
from lembasd.device.lock import may_be_dialled
from lembasd.device.milestones import reached
from lembasd.device.paths import Paths, find_paths
from lembasd.device.person import Person, find_person
from lembasd.ipc.connect import NoHub, connect
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import PROTOCOL, Hello, common_protocol
from lembasd.protocol.limits import TERMINAL_RESUME_S
from lembasd.protocol.spawn import Assignment
from lembasd.pty.master import ignore_keys
from lembasd.pty.terminal import Terminal

#: between two looks for a hub that is gone; doubled up to the longest
FIRST_REDIAL_S: Final = 0.1
LONGEST_REDIAL_S: Final = 1.0
#: a terminal that nobody has opened by then is not wanted (its hub died in between)
OPEN_S: Final = 30.0
#: how long the last output and the exit may take to leave; a hub that does not read for so long gets a null exit
FLUSH_S: Final = 5.0


def main(
    assignment: Assignment, person: Callable[[Mapping[str, str]], Person] = find_person
) -> int:
    """Be the terminal `assignment.channel` until its shell has ended; the exit code.

    0: the exit was said (or nobody was there to be told), or `open` was refused with its reason.
    This process leads a session of its own, without a terminal yet.
    """
    paths = find_paths()
    logging.configure("pty", paths)
    ignore_keys()
    return runtime.run(partial(_serve, assignment, paths, person(os.environ)))


async def _serve(assignment: Assignment, paths: Paths, person: Person) -> int:
    terminal = Terminal(
        assignment.channel,
        person,
        logging.logger().bind(terminal_id=assignment.channel),
        link=assignment.link,
    )
    process = _Process(assignment, paths, terminal)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, terminal.hang_up, f"signal {number.name}")
    unwanted = loop.call_later(OPEN_S, process.unwanted)
    dialling = asyncio.create_task(process.stay_connected())
    await terminal.ended.wait()
    unwanted.cancel()
    await process.flush()
    dialling.cancel()
    await asyncio.wait([dialling])
    await terminal.aclose()
    return 0


class _Process:
    """The connection to the hub, whichever hub it is (`ipc.peer.PeerHandler`)."""

    def __init__(self, assignment: Assignment, paths: Paths, terminal: Terminal) -> None:
        self._assignment = assignment
        self._paths = paths
        self._terminal = terminal
        self._lost = asyncio.Event()
        #: a hub has taken it since the last dial
        self._joined = False
        #: the hub has read all that was said, or is gone
        self._read = asyncio.Event()

    def unwanted(self) -> None:
        if not self._terminal.opened:
            self._terminal.hang_up("nobody opened it")

    async def stay_connected(self) -> None:
        """Dial, wait for the end of the connection, dial again; a link's terminal hangs up instead, or waits for the next."""
        loop = asyncio.get_running_loop()
        wait_s, alone_since = FIRST_REDIAL_S, loop.time()
        while True:
            if await self._dial():
                await self._lost.wait()
            if self._joined:
                self._joined = False
                wait_s, alone_since = FIRST_REDIAL_S, loop.time()
            if self._terminal.link and not self._terminal.resumes:
                self._terminal.hang_up("the link is gone with its hub")
                return
            if self._terminal.link and loop.time() - alone_since > TERMINAL_RESUME_S:
                self._terminal.hang_up("no hub has come for so long")
                return
            if self._paths.stopping.exists():
                self._terminal.hang_up("lembasd was stopped")
                return
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_REDIAL_S)

    async def _dial(self) -> bool:
        """Connect once; whether there is a connection to wait for."""
        self._lost.clear()
        if not may_be_dialled(self._paths):
            reached("pty.found_no_hub", terminal_id=self._assignment.channel)
            return False
        hello = Hello(
            role="pty",
            build=__version__,
            pid=os.getpid(),
            spawn=self._assignment.spawn,
            terminal=self._terminal.hello(),
        )
        try:
            await connect(self._paths.socket, hello, self)
        except (NoHub, OSError):  # nobody there, or not to be had: looked for again
            return False
        return True

    async def flush(self) -> None:
        """Wait until the hub has read what was said, then close.

        Closed earlier, with credit still on its way here, the connection would break and its last messages be lost.
        """
        peer = self._terminal.peer
        if peer is None:
            return
        peer.send(Envelope(kind=kinds.PING, channel=self._assignment.channel))
        try:
            async with asyncio.timeout(FLUSH_S):
                await self._read.wait()
                peer.close("the terminal has ended")
                await self._lost.wait()
        except TimeoutError:
            peer.abort("the hub does not read")

    # ── PeerHandler ─────────────────────────────────────────────────────────────────────────────

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        if common_protocol(PROTOCOL, hello.protocol) is None:
            return  # a hub of another version is as good as none: the shell is a person's
        if hello.refused:
            self._terminal.hang_up(f"refused by its hub: {hello.refused}")
            return
        self._joined = True
        self._terminal.peer = peer
        reached("pty.connected", terminal_id=self._assignment.channel)

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == kinds.PONG:
            self._read.set()
        elif peer is self._terminal.peer:
            self._terminal.message(peer, message)

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        if peer is self._terminal.peer:
            self._terminal.lost_hub()
        self._read.set()
        self._lost.set()
