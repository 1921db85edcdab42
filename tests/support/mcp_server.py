"""An MCP server on stdin and stdout, made with the SDK, that misbehaves as its environment says.

`python -m tests.support.mcp_server`. MISBEHAVE holds words: slow (never lists its tools), dies (ends at once),
floods (stderr), chats (on stdout), deaf (ignores a closed stdin and SIGTERM), ugly (odd names and schemas). MARKS is
a directory where it leaves what it saw; a mark that is a pipe there is waited for.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

MISBEHAVE: Final = os.environ.get("MISBEHAVE", "").split()
MARKS: Final = Path(os.environ.get("MARKS", "."))
#: a 1 x 1 PNG
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _mark(name: str, text: str = "") -> None:
    (MARKS / name).write_text(text)


def _tool(name: str, properties: dict[str, Any] | None = None, **more: Any) -> types.Tool:
    schema = {"type": "object", "properties": properties or {}}
    return types.Tool(name=name, description=f"The tool {name}.", input_schema=schema, **more)


TOOLS: Final = [
    _tool("echo", {"text": {"type": "string"}}),
    _tool("look", annotations=types.ToolAnnotations(read_only_hint=True)),
    _tool("fail"),
    _tool("wait"),
    _tool("die"),
    _tool("hang_up"),
    _tool("huge", {"chars": {"type": "integer"}}),
    _tool("mixed"),
    _tool("empty"),
    _tool("structured", output_schema={"type": "object", "required": ["never"]}),
    _tool("environment"),
    _tool("spawn"),
    _tool("stop", {"text": {"type": "string"}}),
]
UGLY: Final = [
    _tool("a b"),
    _tool("a/b"),
    _tool("x" * 100),
    types.Tool(
        name="odd",
        description="d" * 5000,
        input_schema={
            "type": "object",
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$defs": {"P": {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}}},
            "properties": {
                "loop": {"$ref": "#/$defs/P"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
        },
    ),
]


async def list_tools(
    ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    if "slow" in MISBEHAVE:
        await asyncio.Event().wait()
    return types.ListToolsResult(tools=TOOLS + (UGLY if "ugly" in MISBEHAVE else []))


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def _wait() -> types.CallToolResult:
    _mark("waiting")
    try:
        await asyncio.Event().wait()
    finally:
        _mark("cancelled")
    return _text("never")


def _mixed() -> types.CallToolResult:
    resource = types.TextResourceContents(uri="file:///a", text="inside")
    return types.CallToolResult(
        content=[
            types.TextContent(text="one"),
            types.ImageContent(data=PIXEL, mime_type="image/png"),
            types.EmbeddedResource(resource=resource),
            types.ResourceLink(name="b", uri="file:///b"),
        ]
    )


def _failed() -> types.CallToolResult:
    failed = types.TextContent(text="it did not work")
    return types.CallToolResult(content=[failed], is_error=True)


def _environment() -> types.CallToolResult:
    return _text("\n".join(f"{key}={value}" for key, value in sorted(os.environ.items())))


def _stopped() -> types.CallToolResult:
    os.kill(os.getpid(), signal.SIGSTOP)
    return _text("it goes on")


def _hung_up() -> types.CallToolResult:
    os.closerange(1, 256)  # the SDK writes to a copy of stdout
    time.sleep(600)
    raise AssertionError("nobody has ended it")


ANSWERS: Final[dict[str, Callable[[], types.CallToolResult]]] = {
    "look": lambda: _text("seen"),
    "fail": _failed,
    "die": lambda: os._exit(3),
    "hang_up": _hung_up,
    "mixed": _mixed,
    "empty": lambda: types.CallToolResult(content=[]),
    "structured": lambda: types.CallToolResult(content=[], structured_content={"n": 1}),
    "environment": _environment,
    "spawn": lambda: _text(str(_leave_behind())),
    "stop": _stopped,
}


async def call_tool(
    ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    args = params.arguments or {}
    if params.name in ANSWERS:
        return ANSWERS[params.name]()
    match params.name:
        case "wait":
            return await _wait()
        case "huge":
            return _text("h" * int(args["chars"]))
        case _:
            return _text(f"{params.name}: {args.get('text', '')}")


def _leave_behind() -> int:
    """Start a process that outlives this one when nobody ends it: its pid."""
    child = subprocess.Popen(
        ["sleep", "600"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return child.pid


async def main() -> None:
    _mark(f"started-{os.getpid()}")
    if (MARKS / "begun").exists():
        _mark("begun")
    if "dies" in MISBEHAVE:
        sys.exit("it cannot work here")
    if "chats" in MISBEHAVE:
        os.write(1, b"Welcome to the server!\n")
    if "floods" in MISBEHAVE:
        for _ in range(5000):
            os.write(2, b"e" * 1000 + b"\n")
    if "deaf" in MISBEHAVE:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server: Server[Any] = Server("misbehaving", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
    while "deaf" in MISBEHAVE:
        time.sleep(60)
