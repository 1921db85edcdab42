"""A chat completion server on loopback that plays scripted replies, byte for byte.

It speaks real HTTP over a real socket, so that other processes can use it by its `base_url`. Of every request it
checks what a strict server would: each tool call has exactly one result, right after the message that made it, and
arguments are JSON objects. A request that breaks this is answered 400, and leaving the context raises.

    async with ScriptedModel() as model:
        model.play(reply("I look.", calls=[call("read", path="a.txt")]), reply("Done."))

Without a script left, a request is answered 500 and leaving the context raises; `answer` is for tests that cannot
say the order of requests: it makes each reply from the request's body.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import h11
from msgspec import Struct

MODEL: Final = "scripted"
#: a held stream that a test forgot is let go then
HELD_S: Final = 20.0


class Hold:
    """A place in a reply where the stream stops: `reached` is set there, `release` lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    def release(self) -> None:
        self.released.set()


class Drop(Struct, frozen=True):
    """A place in a reply where the connection is reset."""


Piece = bytes | Hold | Drop


class Reply(Struct, frozen=True):
    """One answer. Each bytes piece leaves in one write of its own."""

    pieces: Sequence[Piece]
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("Content-Type", "text/event-stream"),)


# ── making replies ──────────────────────────────────────────────────────────────────────────────


def sse(value: Any) -> bytes:
    """One event with `value` as its JSON data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE: Final = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, *, finish: str | None = None) -> bytes:
    """One chat completion chunk."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return sse({"id": "cmpl_1", "object": "chat.completion.chunk", "choices": [choice]})


def usage(prompt: int, completion: int, cached: int = 0) -> bytes:
    """The chunk that ends a stream with `include_usage`."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return sse({"id": "cmpl_1", "choices": [], "usage": counts})


class Call(Struct, frozen=True):
    """A tool call as the server sends it."""

    name: str
    arguments: str
    id: str | None = None


def call(name: str, /, *, id: str | None = None, **arguments: Any) -> Call:  # noqa: A002 - the wire's name
    """A tool call with these arguments; `id` None: `srv_<name>_<n>`, a new one each time."""
    return Call(name, json.dumps(arguments), id)


_numbers = iter(range(1, 1_000_000))


def call_pieces(index: int, one: Call) -> list[bytes]:
    """A call in three chunks: its name, and its arguments in two halves."""
    given = one.id if one.id is not None else f"srv_{one.name}_{next(_numbers)}"
    half = len(one.arguments) // 2
    head = {"index": index, "id": given, "type": "function"}
    first = {**head, "function": {"name": one.name, "arguments": ""}}
    rest = [one.arguments[:half], one.arguments[half:]]
    return [
        chunk({"tool_calls": [first]}),
        *(
            chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
            for text in rest
        ),
    ]


def reply(
    text: str = "",
    *,
    calls: Sequence[Call] = (),
    reasoning: str = "",
    finish: str | None = None,
    tokens: tuple[int, int] = (10, 5),
    hold: Hold | None = None,
) -> Reply:
    """A whole streamed reply: reasoning, text word by word, calls, finish, usage. `hold` comes after the text."""
    pieces: list[Piece] = [chunk({"role": "assistant", "content": ""})]
    if reasoning:
        pieces.append(chunk({"reasoning_content": reasoning}))
    words = text.split(" ")
    for number, word in enumerate(words if text else []):
        pieces.append(chunk({"content": word if number == len(words) - 1 else word + " "}))
    if hold is not None:
        pieces.append(hold)
    for index, one in enumerate(calls):
        pieces += call_pieces(index, one)
    pieces += [
        chunk(finish=finish or ("tool_calls" if calls else "stop")),
        usage(*tokens),
        DONE,
    ]
    return Reply(pieces)


def refusal(
    status: int, message: str = "no", headers: Sequence[tuple[str, str]] = (), **more: Any
) -> Reply:
    """An error answer as most servers give it; `more` is put into the error object."""
    body = json.dumps({"error": {"message": message, **more}}).encode()
    return Reply([body], status, (("Content-Type", "application/json"), *headers))


def dropped(*pieces: Piece) -> Reply:
    """A reply whose connection is reset after these pieces; before anything is answered when there are none."""
    return Reply([*pieces, Drop()])


# ── checking requests ───────────────────────────────────────────────────────────────────────────


def problems(body: dict[str, Any]) -> list[str]:
    """What a strict server would refuse in a request's messages."""
    found: list[str] = []
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body.get("messages", []):
        role = message.get("role")
        if role == "tool":
            given = message.get("tool_call_id")
            if given not in waiting:
                found.append(f"a result for {given}, which no call before it waits for")
            else:
                waiting.remove(given)
            continue
        found += [f"the call {one} has no result" for one in waiting]
        waiting = []
        for one in message.get("tool_calls", []):
            if one["id"] in seen:
                found.append(f"two calls have the id {one['id']}")
            seen.add(one["id"])
            waiting.append(one["id"])
            found += _argument_problems(one)
        if role == "assistant" and not message.get("content") and not message.get("tool_calls"):
            found.append("an empty assistant message")
    return found + [f"the call {one} has no result" for one in waiting]


def _argument_problems(one: dict[str, Any]) -> list[str]:
    arguments = one["function"]["arguments"]
    try:
        whole = isinstance(json.loads(arguments), dict)
    except ValueError:
        whole = False
    return [] if whole else [f"arguments that are no JSON object: {arguments!r}"]


# ── the server ──────────────────────────────────────────────────────────────────────────────────


class Asked(Struct, frozen=True):
    """One request as it came."""

    path: str
    authorization: str
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages


class ScriptedModel:
    """The server. `asked` holds every chat completion request in order."""

    def __init__(self, answer: Callable[[dict[str, Any]], Reply] | None = None) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.problems: list[str] = []
        self._script: deque[Reply] = deque()
        self._news = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:<port>`."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def play(self, *replies: Reply) -> None:
        """Answer the next requests with these, one each."""
        self._script.extend(replies)

    async def requests(self, count: int) -> list[Asked]:
        """Wait until so many requests have come; all of them. Bounded by HELD_S."""
        async with asyncio.timeout(HELD_S), self._news:
            await self._news.wait_for(lambda: len(self.asked) >= count)
        return self.asked

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if kind is None and self.problems:
            raise AssertionError("; ".join(self.problems))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        # drain() then waits until a piece has left: one write each, and a drop loses none before it
        writer.transport.set_write_buffer_limits(high=0)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request, raw = await _read_request(reader)
        if request is None:
            return
        path = request.target.decode()
        if path.endswith("/models"):
            body = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            await _write(
                writer, Reply([body.encode()], 200, (("Content-Type", "application/json"),))
            )
            return
        headers = {name.decode(): value.decode() for name, value in request.headers}
        asked = Asked(path, headers.get("authorization", ""), json.loads(raw))
        async with self._news:
            self.asked.append(asked)
            self._news.notify_all()
        await _write(writer, self._reply_to(asked))

    def _reply_to(self, asked: Asked) -> Reply:
        if not asked.path.endswith("/v1/chat/completions"):
            self.problems.append(f"a request for {asked.path}")
            return refusal(404)
        wrong = problems(asked.body)
        if wrong:
            self.problems += wrong
            return refusal(400, "; ".join(wrong))
        if self.answer is not None:
            return self.answer(asked.body)
        if not self._script:
            self.problems.append(f"request {len(self.asked)} has no reply in the script")
            return refusal(400, "the script is over")
        return self._script.popleft()


async def _read_request(reader: asyncio.StreamReader) -> tuple[h11.Request | None, bytes]:
    connection, request, body = h11.Connection(h11.SERVER), None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        else:  # the end of the message, or of a connection that asked nothing
            return request, body


async def _write(writer: asyncio.StreamWriter, answer: Reply) -> None:
    head = [f"HTTP/1.1 {answer.status} Scripted", "Connection: close", "Transfer-Encoding: chunked"]
    head += [f"{name}: {value}" for name, value in answer.headers]
    begun = False
    for piece in answer.pieces:
        match piece:
            case bytes():
                if not begun:
                    begun = True
                    writer.write("\r\n".join([*head, "", ""]).encode())
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            case Hold():
                piece.reached.set()
                async with asyncio.timeout(HELD_S):
                    await piece.released.wait()
            case Drop():
                writer.transport.abort()
                return
    if not begun:
        writer.write("\r\n".join([*head, "", ""]).encode())
    writer.write(b"0\r\n\r\n")
    await writer.drain()
