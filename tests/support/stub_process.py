"""Zygotes and spares whose children are told by their channel what to do: the spawn tests' stand-in for workers.

`python -m tests.support.stub_process FD KIND SPARE`. A channel is a session id, whose first letters are the order
(see `run`). Each child says hello on the hub's socket first, as a worker does.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from lembasd import __version__
from lembasd.device import runtime
from lembasd.device.lock import Membership
from lembasd.device.milestones import reached
from lembasd.device.paths import find_paths
from lembasd.ipc.connect import connect
from lembasd.ipc.peer import Peer
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello, SessionHello
from lembasd.protocol.spawn import Assignment
from lembasd.zygote.serve import Zygote
from lembasd.zygote.spare import wait_and_become

#: leaves a process of its own session, whose parent is gone
_DAEMON = "import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  {}\n os._exit(0)\nos.wait()"
_SLEEP = "os.execve('/bin/sleep', ['sleep', '600'], {})"


def order(name: str) -> str:
    """A session id that orders a stub to do `name`: wait, end, crash, marked or cleared."""
    return "ses_" + name.ljust(26, "0")


class _Hello:
    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        pass

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        pass

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self.lost.set()


def run(assignment: Assignment) -> int:
    name = assignment.channel[4:].rstrip("0")
    runtime.become_subreaper()
    if name == "end":
        return 7
    if name == "crash":
        raise RuntimeError("as ordered")
    if name in ("marked", "cleared"):
        marker = {"LEMBASD_SESSION": f"{assignment.channel}:1"} if name == "marked" else {}
        code = _DAEMON.format(_SLEEP.format(marker))
        subprocess.run([sys.executable, "-c", code], check=True, env=marker)
    reached(
        "stub.runs",
        channel=assignment.channel,
        open=_open_files(),
        leader=os.getsid(0) == os.getpid(),
        terminates=signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
        errors=[
            one.name
            for one in (signal.SIGPIPE, signal.SIGXFSZ)
            if signal.getsignal(one) == signal.SIG_IGN
        ],
        blocked=len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    )
    return runtime.run(lambda: _serve(assignment))


def _open_files() -> list[str]:
    """What each descriptor of this process is, the one that lists them left out."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(link.readlink()))
    return sorted(one for one in found if not one.startswith(f"/proc/{os.getpid()}"))


async def _serve(assignment: Assignment) -> int:
    hello = Hello(
        role="worker",
        build=__version__,
        pid=os.getpid(),
        spawn=assignment.spawn,
        session=SessionHello(session_id=assignment.channel, epoch=1),
    )
    handler = _Hello()
    await connect(find_paths().socket, hello, handler)
    await handler.lost.wait()
    return 0


def main() -> int:
    handle, kind, spare = sys.argv[1:]
    os.set_inheritable(int(handle), False)
    control = socket.socket(fileno=int(handle))
    paths = find_paths()
    membership = Membership.join(paths)
    if spare == "True":
        return wait_and_become(control, "worker", run)
    if kind == "pty":
        return Zygote(control, "pty", run, paths, membership).serve()
    runtime.become_subreaper()
    return Zygote(control, "worker", run, paths, membership).serve()


if __name__ == "__main__":
    sys.exit(main())
