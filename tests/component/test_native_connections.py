"""Connections to a model's server that are kept, and closed by it without a word."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.protocol import events
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import event

#: far below the time in which something may follow the end of a reply
COMMENT_EVERY_S = 0.02
_REPLY = event({"content": "here"}, finish_reason="stop") + b"data: [DONE]\n\n"


class Forgetful:
    """Answers the first request of each connection and says it is kept; closes it at the second, without an answer."""

    def __init__(self) -> None:
        #: requests for a reply, answered and not
        self.asked = 0
        #: how many of them, as the first of their connection, get no answer
        self.mute = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await self._chat(reader) and self.mute:
                self.mute -= 1
                return
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
            )
            writer.write(head % len(_REPLY) + _REPLY)
            await writer.drain()
            await self._chat(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _chat(self, reader: asyncio.StreamReader) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        asks = head.startswith(b"POST")
        self.asked += asks
        for line in head.lower().splitlines():
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.partition(b":")[2]))
        return asks


@pytest.fixture
def forgetful() -> Forgetful:
    return Forgetful()


@pytest.fixture
async def host(short_tmp: Path, forgetful: Forgetful) -> AsyncIterator[RecorderHost]:
    root = (short_tmp / "project").resolve()
    root.mkdir()
    server = await asyncio.start_server(forgetful.serve, "127.0.0.1", 0)
    async with server:
        yield RecorderHost(root, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def turns(host: RecorderHost, count: int) -> list[TurnOutcome]:
    engine = host.engine()
    try:
        return [await host.turn(engine, f"t{number}") for number in range(count)]
    finally:
        await engine.aclose()


def notices(host: RecorderHost) -> list[events.Notice]:
    return [one for one in host.events if isinstance(one, events.Notice)]


async def test_a_kept_connection_that_its_server_closed_is_no_failure_and_nothing_to_tell(
    host: RecorderHost, forgetful: Forgetful
) -> None:
    assert await turns(host, 3) == [TurnOutcome(stop_reason="end_turn")] * 3
    assert notices(host) == []
    assert forgetful.asked > 3


async def test_a_new_connection_without_an_answer_is_a_failure_that_is_told(
    host: RecorderHost, forgetful: Forgetful
) -> None:
    forgetful.mute = 1
    assert await turns(host, 1) == [TurnOutcome(stop_reason="end_turn")]
    [notice] = notices(host)
    assert notice.text.startswith("the model's server cannot be reached (")


async def test_comments_without_end_after_the_end_of_a_reply_hold_nobody(short_tmp: Path) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(event({"content": "here"}, finish_reason="stop"))
        try:
            while True:
                writer.write(b": still here\n\n")
                await writer.drain()
                await asyncio.sleep(COMMENT_EVERY_S)
        except (ConnectionError, RuntimeError):
            pass  # the client has gone; uvloop says it either way
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        # it does the same where it is asked for its models
        host = RecorderHost(short_tmp, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with asyncio.timeout(30):
            assert await turns(host, 1) == [TurnOutcome(stop_reason="end_turn")]
