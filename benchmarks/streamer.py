"""A model's server that streams one long reply to each request: `python -m benchmarks.streamer TOKENS`; prints its port."""

import asyncio
import sys

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
_END = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
#: tokens in one write, as a fast server sends them
_BURST = 4


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tokens: int) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)
    if b"chat/completions" not in head:
        writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    else:
        writer.write(_HEAD)
        for _ in range(tokens // _BURST):
            writer.write(_CHUNK * _BURST)
            await writer.drain()
        writer.write(_END)
    await writer.drain()
    writer.close()


async def main() -> None:
    tokens = int(sys.argv[1])
    server = await asyncio.start_server(lambda r, w: _answer(r, w, tokens), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
