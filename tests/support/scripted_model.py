"""A chat completions server on loopback that plays scripted replies and checks what it is asked."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec


@dataclass
class Reply:
    """One scripted answer.

    `hold`: the stream stops after the text until this is set. `drop`: the connection is cut after the text.
    `raw`: bytes to send in place of a stream (then `hold` keeps the connection open). `status` other than 200 sends `raw` as an error.
    """

    text: str = ""
    calls: list[tuple[str, dict[str, Any] | str]] = field(default_factory=list)
    reasoning: str = ""
    finish: str | None = None
    hold: asyncio.Event | None = None
    drop: bool = False
    raw: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedModel:
    """Plays its replies in order; a request with none left is answered with the text "done"."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        #: decides by the request itself, before the list is looked at
        self.choose: Callable[[dict[str, Any]], Reply | None] = lambda _body: None
        #: awaited before a reply begins
        self.before: Callable[[dict[str, Any]], Awaitable[None]] = _at_once
        #: what it says of its models; None: it knows of no such list
        self.models: list[dict[str, Any]] | None = None
        self.lists_asked = 0
        #: what `/v1/me/personalization` is answered with, b"" for a 404; None: with nothing at all
        self.personalization: bytes | None = b""
        self.personalization_status = 200
        self.personalization_asked = 0
        self.personalization_came = asyncio.Event()
        self.requests: list[dict[str, Any]] = []
        self.authorizations: list[str] = []
        self.violations: list[str] = []
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.base_url = ""
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    def script(self, *replies: Reply) -> None:
        self.replies.extend(replies)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if kind is None:
            assert self.violations == []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answer(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        path = lines[0].split()[1]
        if path.endswith("/models") and self.models is not None:
            self.lists_asked += 1
            _head(writer, 200, {"Content-Type": "application/json"})
            writer.write(msgspec.json.encode({"data": self.models}))
            await writer.drain()
            return
        if path == "/v1/me/personalization":
            self.personalization_asked += 1
            self.personalization_came.set()
            if self.personalization is None:
                await reader.read()
                return
            if self.personalization:
                _head(writer, self.personalization_status, {"Content-Type": "application/json"})
                writer.write(self.personalization)
                await writer.drain()
                return
        if not path.endswith("/chat/completions"):
            _head(writer, 404, {"Content-Type": "application/json"})
            return
        body = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])))
        self.authorizations.append(headers.get("authorization", ""))
        self.requests.append(body)
        self._check(body["messages"])
        self.asked.put_nowait(body)
        reply = self.choose(body)
        await self.before(body)
        if reply is None:
            reply = self.replies.pop(0) if self.replies else Reply(text="done")
        await _play(writer, reply)

    def _check(self, messages: list[dict[str, Any]]) -> None:
        """Each call of an assistant message has exactly one result, before anybody else speaks."""
        waiting: set[str] = set()
        for message in messages:
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    self.violations.append(f"a result of no call: {message}")
                waiting.discard(message["tool_call_id"])
                continue
            if waiting:
                self.violations.append(f"calls without a result: {waiting}")
            waiting = {call["id"] for call in message.get("tool_calls", [])}
        if waiting:
            self.violations.append(f"calls without a result: {waiting}")


async def _at_once(_body: dict[str, Any]) -> None: ...


def _head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Scripted", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


async def _play(writer: asyncio.StreamWriter, reply: Reply) -> None:
    headers = {"Content-Type": "text/event-stream", **reply.headers}
    _head(writer, reply.status, headers)
    if reply.raw is not None:
        writer.write(reply.raw)
        await writer.drain()
        if reply.hold is not None:
            await reply.hold.wait()
        return
    for chunk in _chunks(reply):
        writer.write(chunk)
    await writer.drain()
    if reply.hold is not None:
        await reply.hold.wait()
    if reply.drop:
        return
    finish = reply.finish or ("tool_calls" if reply.calls else "stop")
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    for index, (name, args) in enumerate(reply.calls):
        text = args if isinstance(args, str) else msgspec.json.encode(args).decode()
        function = {"name": name, "arguments": text}
        writer.write(
            event({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
        )
    writer.write(event({}, finish_reason=finish))
    writer.write(b"data: " + msgspec.json.encode({"choices": [], "usage": usage}) + b"\n\n")
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()


def _chunks(reply: Reply) -> list[bytes]:
    chunks = []
    if reply.reasoning:
        chunks.append(event({"reasoning_content": reply.reasoning}))
    if reply.text:
        half = len(reply.text) // 2
        chunks += [
            event({"content": part}) for part in (reply.text[:half], reply.text[half:]) if part
        ]
    return chunks


def event(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """One chunk as it stands on the wire."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"
