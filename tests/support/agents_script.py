"""What an agent that wants more than it was given would run: every way to the hub's socket, and what came of each.

Run as `python -m tests.support.agents_script OUT [session]`: writes one JSON object to OUT, by rename.
"""

import asyncio
import fcntl
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from lembasd.device.paths import Paths, find_paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub, connect
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.hello import Hello, SessionHello, TerminalHello

WAIT_S: Final = 20.0
LEMBAS: Final = {"protocolVersion": 1, "clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}}}


class Dialled:
    """A connection under a role that is not this process', and what the hub said to it."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.frames: list[str] = []

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.answer.set_result(hello.refused or "welcome")

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        self.frames.append(message.kind)

    def peer_writable(self, peer: Peer) -> None:
        pass

    def peer_lost(self, peer: Peer, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_result(f"closed: {reason}")


async def as_process(paths: Paths, hello: Hello) -> str:
    """Say a worker's or a terminal's hello; the hub's answer."""
    dialled = Dialled()
    peer = await connect(paths.socket, hello, dialled)
    async with asyncio.timeout(WAIT_S):
        answer = await dialled.answer
    peer.close()
    return answer if kinds.SETTINGS not in dialled.frames else "was given the settings"


async def as_client(paths: Paths, session: str, card: str) -> dict[str, str]:
    """Ask for everything that a person may ask for; what was answered to each."""
    client = HubClient()
    await client.connect(paths.socket)
    said = {}
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "approve yourself"}]}
    for method, params in (
        ("initialize", LEMBAS),
        ("_hub/status", {}),
        ("_hub/attach", {"sessionId": session}),
        ("_hub/share", {"sessionId": session, "shared": True}),
        ("session/new", {"cwd": str(Path.cwd()), "mcpServers": [], "_meta": {"mode": "auto"}}),
        ("session/prompt", prompt),
        ("session/set_mode", {"sessionId": session, "modeId": "auto"}),
        ("_lembas/session/history", {"sessionId": session}),
        ("_lembas/terminal/open", {}),
        ("_hub/reload", {}),
        ("_hub/stop", {}),
    ):
        said[method] = await _asked(client, method, params)
    if card:
        reply = {"outcome": {"outcome": "selected", "optionId": "once"}}
        client.reply(jsonrpc.Message(text=b"", id=msgspec.json.encode(card)), reply)
        # it has been read once this is answered
        said["after the reply"] = await _asked(client, "_hub/status", {})
    client.close()
    return said


async def _asked(client: HubClient, method: str, params: Any) -> str:
    try:
        await client.request(method, params, WAIT_S)
    except RequestRefused as refused:
        return str(refused)
    return "done"


def hold_lock(paths: Paths, session: str) -> int:
    """Take the lock of a session nobody has open, as its worker would, and write this pid into it."""
    path = paths.session(session) / "lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


async def main(out: Path, session: str, closed: str, card: str) -> None:
    paths, pid = find_paths(), os.getpid()
    said: dict[str, Any] = {"pid": pid}
    end = time.monotonic() + WAIT_S
    while True:
        try:
            said["client"] = await as_client(paths, session, card)
            break
        except NoHub:
            # the hub is being started again
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.01)
    said["worker"] = await as_process(
        paths, Hello(role="worker", build="x", pid=pid, session=SessionHello(session, 9))
    )
    if closed:
        handle = hold_lock(paths, closed)
        said["worker with a lock"] = await as_process(
            paths, Hello(role="worker", build="x", pid=pid, session=SessionHello(closed, 9))
        )
        os.close(handle)
    terminal = TerminalHello("term_" + "z" * 12)
    said["pty"] = await as_process(paths, Hello(role="pty", build="x", pid=pid, terminal=terminal))
    said["utility"] = await as_process(paths, Hello(role="utility", build="x", pid=pid))
    part = out.with_name(out.name + ".part")
    part.write_bytes(msgspec.json.encode(said))
    part.rename(out)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
