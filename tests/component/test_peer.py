"""Two peers over a real Unix socket."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from lembasd.ipc.connect import NoHub, connect
from lembasd.ipc.framing import AssemblyBudget, encode_frame
from lembasd.ipc.listen import bind, serve
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Unknown
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.hello import Hello
from lembasd.protocol.limits import MIB

HELLO = Hello(role="client", build="test", pid=1)


class Recorder:
    """Puts everything that happens on its peers into queues."""

    def __init__(self) -> None:
        self.hellos: asyncio.Queue[tuple[Peer, Hello]] = asyncio.Queue()
        self.messages: asyncio.Queue[Envelope] = asyncio.Queue()
        self.lost: asyncio.Queue[str] = asyncio.Queue()
        self.writable = asyncio.Event()
        self.peers: list[Peer] = []

    def peer_hello(self, peer: Peer, hello: Hello) -> None:
        self.peers.append(peer)
        self.hellos.put_nowait((peer, hello))

    def peer_message(self, peer: Peer, message: Envelope) -> None:
        if message.kind == "strange":
            peer.answer_unknown(message)
        self.messages.put_nowait(message)

    def peer_writable(self, peer: Peer) -> None:
        self.writable.set()

    def peer_lost(self, peer: Peer, reason: str) -> None:
        self.lost.put_nowait(reason)


@asynccontextmanager
async def hub(path: Path) -> AsyncIterator[Recorder]:
    """A hub that records; whoever is still connected at the end is cut."""
    recorder = Recorder()
    server = await serve(bind(path), recorder, AssemblyBudget())
    try:
        yield recorder
    finally:
        server.close()
        for peer in [*recorder.peers, *DIALLED]:
            peer.abort("the test is over")
        while any(peer.is_open for peer in [*recorder.peers, *DIALLED]):
            await recorder.lost.get()
        DIALLED.clear()


DIALLED: list[Peer] = []


async def dial(path: Path, recorder: Recorder) -> Peer:
    peer = await connect(path, HELLO, recorder)
    DIALLED.append(peer)
    return peer


async def raw(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(str(path))


async def test_hellos_cross_and_messages_follow(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(5), hub(path) as server:
        client = Recorder()
        peer = await dial(path, client)
        accepted, hello = await server.hellos.get()
        assert (hello, accepted.pid, accepted.uid) == (HELLO, os.getpid(), os.getuid())
        accepted.send_hello(Hello(role="hub", build="test", pid=2))
        await client.hellos.get()
        accepted.send(Envelope(kind=kinds.RPC, payload=b"x" * (3 * MIB)))
        assert await client.messages.get() == Envelope(kind=kinds.RPC, payload=b"x" * (3 * MIB))
        peer.close()


async def test_the_socket_is_the_persons_alone(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with hub(path):
        assert path.stat().st_mode & 0o777 == 0o600


async def test_a_stale_socket_is_replaced(short_tmp: Path) -> None:
    path = short_tmp / "s"
    bind(path).close()
    async with asyncio.timeout(5), hub(path) as server:
        await dial(path, Recorder())
        await server.hellos.get()


@pytest.mark.parametrize("leave", ["nothing", "stale"])
async def test_a_socket_nobody_listens_on_is_no_hub(short_tmp: Path, leave: str) -> None:
    path = short_tmp / "s"
    if leave == "stale":
        bind(path).close()
    with pytest.raises(NoHub, match="lembasd run"):
        await connect(path, HELLO, Recorder())


async def test_a_full_accept_queue_is_busy_and_then_no_hub(short_tmp: Path) -> None:
    path = short_tmp / "s"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(0)
    waiting = []
    try:
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            one.connect(str(path))
    except BlockingIOError:
        pass
    listener.setblocking(False)
    async with asyncio.timeout(5):
        dialling = asyncio.ensure_future(connect(path, HELLO, Recorder()))
        loop = asyncio.get_running_loop()
        accepted = []
        while not dialling.done():  # the hub gets to its queue: the waiting dial goes through
            accepting = asyncio.ensure_future(loop.sock_accept(listener))
            await asyncio.wait({accepting, dialling}, return_when=asyncio.FIRST_COMPLETED)
            if accepting.done():
                accepted.append(accepting.result()[0])
            else:
                accepting.cancel()
        peer = await dialling
        assert peer.is_open
        peer.close()
    for one in (*waiting, *accepted, listener):
        one.close()


async def test_a_peer_without_a_hello_is_dropped(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(5), hub(path) as server:
        reader, writer = await raw(path)
        assert await reader.read() == b""
        assert await server.lost.get() == "no hello within 2 s"
        writer.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "is over the"),
        (b"\x00\x00\x00\x02\xc1\xc1", "no envelope"),
        (encode_frame(Envelope(kind=kinds.RPC)), "no hello"),
        (encode_frame(Envelope(kind=kinds.HELLO, payload=b"{")), "cannot be read"),
        (encode_frame(Envelope(kind=kinds.HELLO, payload=b'{"role":"king"}')), "cannot be read"),
    ],
)
async def test_garbage_drops_its_peer_and_no_other(
    short_tmp: Path, data: bytes, reason: str
) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(5), hub(path) as server:
        await dial(path, Recorder())
        good, _ = await server.hellos.get()
        reader, writer = await raw(path)
        writer.write(data)
        assert await reader.read() == b""
        assert reason in await server.lost.get()
        assert good.is_open
        writer.close()


async def test_an_unknown_kind_is_answered_and_the_connection_stays(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(5), hub(path) as server:
        client = Recorder()
        peer = await dial(path, client)
        accepted, _ = await server.hellos.get()
        accepted.send_hello(HELLO)
        peer.send(Envelope(kind="strange"))
        answer = await client.messages.get()
        assert (answer.kind, msgspec.json.decode(answer.payload, type=Unknown)) == (
            kinds.UNKNOWN,
            Unknown("strange"),
        )
        peer.answer_unknown(answer)  # never answered again
        peer.send(Envelope(kind=kinds.RPC))
        assert [(await server.messages.get()).kind for _ in range(2)] == ["strange", kinds.RPC]


async def test_a_ping_is_answered_before_what_is_queued(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(10), hub(path) as server:
        reader, writer = await raw(path)
        writer.write(encode_frame(Envelope(kind=kinds.HELLO, payload=msgspec.json.encode(HELLO))))
        peer, _ = await server.hellos.get()
        for channel in ("ses_a", "ses_b"):
            peer.send(Envelope(kind=kinds.RPC, channel=channel, payload=b"x" * (8 * MIB)))
        assert not peer.writable
        assert peer.queued_bytes > 8 * MIB
        writer.write(encode_frame(Envelope(kind=kinds.PING)))
        pong, got = encode_frame(Envelope(kind=kinds.PONG)), b""
        while pong not in got:
            got += await reader.read(1 << 20)
        # all that may stand before it is what the kernel and the transport held already
        assert len(got) < 2 * MIB
        while not server.writable.is_set():
            await reader.read(1 << 20)
        assert peer.queued_bytes == 0
        writer.close()


async def test_who_pings_and_never_reads_is_cut_off(short_tmp: Path) -> None:
    async with hub(short_tmp / "s") as here:
        flood = socket.socket(socket.AF_UNIX)
        flood.connect(str(short_tmp / "s"))
        flood.setblocking(False)
        loop = asyncio.get_running_loop()
        hello = encode_frame(Envelope(kind=kinds.HELLO, payload=msgspec.json.encode(HELLO)))
        await loop.sock_sendall(flood, hello)
        pings = encode_frame(Envelope(kind=kinds.PING)) * 1000
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            await loop.sock_sendall(flood, pings * 1000)
        assert await here.lost.get() == "the other side does not read"
        flood.close()


async def test_channels_take_turns_when_the_socket_is_full(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(10), hub(path) as server:
        client = Recorder()
        reader, writer = await raw(path)
        writer.write(encode_frame(Envelope(kind=kinds.HELLO, payload=msgspec.json.encode(HELLO))))
        peer, _ = await server.hellos.get()
        peer.send(Envelope(kind=kinds.RPC, channel="ses_flood", payload=b"x" * (30 * MIB)))
        peer.send(Envelope(kind=kinds.RPC, channel="ses_quiet", payload=b"the quiet one"))
        got = b""
        while b"the quiet one" not in got:
            got = got[-100:] + await reader.read(1 << 20)
        assert peer.queued_bytes > 20 * MIB
        assert client.lost.empty()
        writer.close()


async def test_sending_on_a_closed_peer_does_nothing(short_tmp: Path) -> None:
    path = short_tmp / "s"
    async with asyncio.timeout(5), hub(path) as server:
        client = Recorder()
        peer = await dial(path, client)
        await server.hellos.get()
        peer.abort("enough")
        assert await client.lost.get() == "enough"
        peer.send(Envelope(kind=kinds.RPC))
        peer.send_control(Envelope(kind=kinds.PING))
        peer.close()
        assert (peer.is_open, peer.buffered_bytes) == (False, 0)
