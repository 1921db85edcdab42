"""The link's WebSocket against a scripted instance, over real sockets."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from websockets.frames import Opcode

from lembasd.link import connection as link
from lembasd.link.connection import LinkConnection, TokenRefused, open_connection
from lembasd.link.discovery import Unreachable
from lembasd.protocol.limits import KIB, MAX_MESSAGE_BYTES, MIB
from tests.support.fake_instance import TOKEN, WAIT_S, Answer, Device, FakeInstance

LINK = "/api/devices/link"


class Recorder:
    """Keeps what a connection says; a test waits on it."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.writable = asyncio.Event()
        self._news = asyncio.Event()

    def connection_opened(self, connection: LinkConnection) -> None:
        self._tell("opened")

    def link_message(self, connection: LinkConnection, text: bytes) -> None:
        self._tell(text)

    def link_writable(self, connection: LinkConnection) -> None:
        self.writable.set()

    def connection_closed(self, connection: LinkConnection, code: int, reason: str) -> None:
        self._tell((code, reason))

    def _tell(self, news: object) -> None:
        self.told.append(news)
        self._news.set()

    async def until(self, count: int) -> list[object]:
        """What was told, once there is this much of it."""
        async with asyncio.timeout(WAIT_S):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()
        return self.told


async def opened(instance: FakeInstance) -> tuple[LinkConnection, Device, Recorder]:
    recorder = Recorder()
    connection = await open_connection(recorder, instance.url, TOKEN, None)
    return connection, await instance.device(), recorder


async def test_a_message_arrives_whole_whether_it_comes_in_one_frame_or_in_many() -> None:
    async with FakeInstance() as instance:
        _connection, device, recorder = await opened(instance)
        device.send(b'{"n":1}')
        device.send(b"x" * 300_000, fragments=7)
        device.send(b'{"n":2}')
        assert await recorder.until(4) == ["opened", b'{"n":1}', b"x" * 300_000, b'{"n":2}']


async def test_what_comes_with_the_handshake_is_told_after_the_opening() -> None:
    async with FakeInstance() as instance:
        instance.greet = lambda device: device.send(b'{"method":"initialize"}')
        _connection, _device, recorder = await opened(instance)
        assert await recorder.until(2) == ["opened", b'{"method":"initialize"}']


async def test_a_close_that_comes_with_the_handshake_is_told_after_the_opening() -> None:
    async with FakeInstance() as instance:
        instance.greet = lambda device: device.close(4400, "update LLeMbas CLI to 2.0")
        _connection, _device, recorder = await opened(instance)
        assert await recorder.until(2) == ["opened", (4400, "update LLeMbas CLI to 2.0")]


async def test_messages_arrive_in_order_whatever_their_length() -> None:
    async with FakeInstance() as instance:
        connection, device, _recorder = await opened(instance)
        texts = [b"%d:" % n + b"y" * (n * 50_000) for n in range(8)] + [b"z" * (3 * MIB), b"end"]
        for text in texts:
            connection.send(text)
        assert [await device.message() for _ in texts] == texts
        assert connection.has_room


async def test_messages_of_one_turn_of_the_loop_are_ordinary_frames_of_their_own() -> None:
    async with FakeInstance() as instance:
        connection, device, _recorder = await opened(instance)
        texts = [b'{"n":%d}' % n for n in range(500)]
        for text in texts:
            connection.send(text)
        assert [await device.message() for _ in texts] == texts
        assert [bytes(frame.data) for frame in device.frames] == texts


async def test_a_ping_is_answered_between_the_fragments_of_a_long_message() -> None:
    async with FakeInstance() as instance:
        connection, device, _recorder = await opened(instance)
        text = b"x" * (16 * MIB)
        device.reads.clear()
        connection.send(text)
        device.ping(b"now")
        device.reads.set()
        assert await device.message() == text
        opcodes = [frame.opcode for frame in device.frames]
        assert Opcode.PONG in opcodes[:-1]
        assert opcodes.index(Opcode.PONG) < len(opcodes) - 1
        assert max(len(frame.data) for frame in device.frames) == link.FRAGMENT_BYTES


async def test_a_device_that_does_not_read_fills_the_queue_and_is_writable_when_it_reads_again() -> (
    None
):
    async with FakeInstance() as instance:
        connection, device, recorder = await opened(instance)
        device.reads.clear()
        text, sent = b"x" * (32 * KIB), 0
        while connection.has_room:
            connection.send(text)
            sent += 1
            await asyncio.sleep(0)
            assert sent < 4096
        recorder.writable.clear()
        device.reads.set()
        async with asyncio.timeout(WAIT_S):
            await recorder.writable.wait()
        assert [await device.message() for _ in range(sent)] == [text] * sent


async def test_a_close_comes_after_what_was_sent_before_it() -> None:
    async with FakeInstance() as instance:
        connection, device, recorder = await opened(instance)
        texts = [b"a" * 70_000, b"b" * (2 * MIB), b"c"]
        for text in texts:
            connection.send(text)
        connection.close(1013, "too far behind; try again later")
        connection.send(b"too late")
        assert [await device.message() for _ in texts] == texts
        await device.until_closed()
        assert (device.close_code, device.close_reason) == (1013, "too far behind; try again later")
        told = await recorder.until(2)
        assert told == ["opened", (1013, "too far behind; try again later")]


async def test_a_close_reason_is_cut_to_what_a_close_frame_holds() -> None:
    async with FakeInstance() as instance:
        connection, device, _recorder = await opened(instance)
        connection.close(1000, "ä" * 200)
        await device.until_closed()
        assert device.close_reason == "ä" * 61


async def test_an_instance_that_never_answers_a_ping_is_given_up() -> None:
    async with FakeInstance() as instance:
        instance.greet = lambda device: setattr(device, "answers", False)
        recorder = Recorder()
        await open_connection(
            recorder, instance.url, TOKEN, None, ping_interval_s=0.05, pong_timeout_s=0.05
        )
        reason = "the instance did not answer a ping within 0.05 s"
        assert await recorder.until(2) == ["opened", (1006, reason)]


@pytest.mark.parametrize(("slept", "pings"), [((0.0, 0.0), 1), ((0.0, 5.0, 5.0), 2)])
async def test_an_instance_that_had_no_chance_to_answer_is_asked_once_more(
    slept: tuple[float, ...], pings: int
) -> None:
    looks = iter(slept)
    async with FakeInstance() as instance:
        instance.greet = lambda device: setattr(device, "answers", False)
        recorder = Recorder()
        await open_connection(
            recorder,
            instance.url,
            TOKEN,
            None,
            ping_interval_s=0.05,
            pong_timeout_s=0.05,
            slept_s=lambda: next(looks),
        )
        device = await instance.device()
        await recorder.until(2)
        await device.until_closed()
        assert [frame.opcode for frame in device.frames].count(Opcode.PING) == pings


async def test_an_instance_that_answers_pings_is_kept() -> None:
    async with FakeInstance() as instance:
        recorder = Recorder()
        connection = await open_connection(
            recorder, instance.url, TOKEN, None, ping_interval_s=0.02, pong_timeout_s=0.5
        )
        device = await instance.device()
        async with asyncio.timeout(WAIT_S):
            while [frame.opcode for frame in device.frames].count(Opcode.PING) < 3:
                device.send(b"tick")
                await recorder.until(len(recorder.told) + 1)
        assert all(news in ("opened", b"tick") for news in recorder.told)
        connection.close(1000, "")
        await device.until_closed()


async def test_a_connection_that_is_dropped_is_told_as_lost() -> None:
    async with FakeInstance() as instance:
        _connection, device, recorder = await opened(instance)
        device.drop()
        told = await recorder.until(2)
        assert [told[0], told[1][0]] == ["opened", 1006]  # type: ignore[index]


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"\xff\xff\xff\xff", id="reserved-bits"),
        pytest.param(b"\x81\xfe\x00\x01", id="masked"),
        pytest.param(b"\x80\x02hi", id="continuation-of-nothing"),
        pytest.param(
            b"\x81\x7f" + (MAX_MESSAGE_BYTES + 1).to_bytes(8, "big"), id="longer-than-any-message"
        ),
    ],
)
async def test_a_frame_that_is_garbage_ends_the_connection(garbage: bytes) -> None:
    async with FakeInstance() as instance:
        _connection, device, recorder = await opened(instance)
        device.send_raw(garbage)
        await device.until_closed()
        assert device.close_code in (1002, 1009)
        device.drop()
        assert len(await recorder.until(2)) == 2


async def test_a_binary_message_is_refused() -> None:
    async with FakeInstance() as instance:
        _connection, device, recorder = await opened(instance)
        device.send_binary(b"\x00")
        await device.until_closed()
        assert (device.close_code, device.close_reason) == (1003, "messages are text")
        assert await recorder.until(2) == ["opened", (1003, "messages are text")]


async def test_control_characters_of_a_close_reason_reach_no_terminal() -> None:
    async with FakeInstance() as instance:
        _connection, device, recorder = await opened(instance)
        device.close(1008, "no\x1b[2Jway")
        assert await recorder.until(2) == ["opened", (1008, "no [2Jway")]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_not_accepted_is_said_so(status: int) -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = Answer(status)
        with pytest.raises(TokenRefused, match="log in again"):
            await open_connection(Recorder(), instance.url, TOKEN, None)


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [({"Retry-After": "7"}, 7.0), ({}, None), ({"Retry-After": "tomorrow"}, None)],
)
async def test_a_busy_instance_says_how_long_to_stay_away(
    retry_after: dict[str, str], expected: float | None
) -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = Answer(503, headers=retry_after)
        with pytest.raises(Unreachable) as raised:
            await open_connection(Recorder(), instance.url, TOKEN, None)
        assert str(raised.value) == "the instance answers 503 to the link; it is asked again"
        assert raised.value.retry_after_s == expected


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", id="another-protocol"),
        pytest.param(b"", id="nothing"),
        pytest.param(Answer(200, b"hello").encode(), id="a-web-page"),
        pytest.param(Answer(426, b"no").encode(), id="no-websocket"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: bm8=\r\n\r\n",
            id="a-wrong-accept",
        ),
    ],
)
async def test_what_answers_as_no_instance_is_unreachable(answer: bytes) -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = answer
        with pytest.raises(Unreachable, match=r"between here and there stops a WebSocket|at once"):
            await open_connection(Recorder(), instance.url, TOKEN, None)


async def test_an_instance_that_is_away_is_unreachable() -> None:
    async with FakeInstance() as instance:
        url = instance.url
    with pytest.raises(Unreachable, match="cannot be reached"):
        await open_connection(Recorder(), url, TOKEN, None)


async def test_a_handshake_that_is_given_up_leaves_no_connection() -> None:
    async with FakeInstance() as instance:
        instance.mute.add(LINK)
        dialling = asyncio.ensure_future(open_connection(Recorder(), instance.url, TOKEN, None))
        await instance.asked(LINK)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling


@pytest.mark.spec("the token in the Authorization header")
async def test_the_token_goes_in_the_authorization_header_and_nowhere_else() -> None:
    async with FakeInstance() as instance:
        connection, _device, _recorder = await opened(instance)
        (seen,) = instance.requests
        assert seen.headers["authorization"] == f"Bearer {TOKEN}"
        assert TOKEN not in seen.path
        assert "sec-websocket-extensions" not in seen.headers
        connection.abort("")


def certificate(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's context for localhost."""
    key, cert = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
async def test_the_link_speaks_tls_and_trusts_only_what_the_machine_trusts(tmp_path: Path) -> None:
    server, client = certificate(tmp_path)
    async with FakeInstance(context=server) as instance:
        recorder = Recorder()
        connection = await open_connection(recorder, instance.url, TOKEN, client)
        device = await instance.device()
        text = b"x" * (4 * MIB)
        connection.send(text)
        assert await device.message() == text
        device.send(text, fragments=3)
        assert await recorder.until(2) == ["opened", text]
        connection.close(1000, "done")
        assert await recorder.until(3) == ["opened", text, (1000, "done")]
        with pytest.raises(Unreachable, match="certificate"):
            await open_connection(Recorder(), instance.url, TOKEN, ssl.create_default_context())
