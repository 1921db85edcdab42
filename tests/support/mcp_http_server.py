"""An MCP server over HTTP (`http` or `sse`) whose tools tell the header X-Key and of a change. It prints its address.

`python -m tests.support.mcp_http_server TRANSPORT`.
"""

import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer


def main() -> None:
    server = MCPServer("far")

    @server.tool()
    def key(ctx: Context[Any, Any]) -> str:
        """Tell the key."""
        request = ctx.request_context.request
        return str(request.headers["x-key"]) if request is not None else ""

    @server.tool()
    def scope(ctx: Context[Any, Any]) -> str:
        """Tell what the call says beside its arguments."""
        return str(dict(ctx.request_context.meta or {}).get("lembas"))

    @server.tool()
    async def change(ctx: Context[Any, Any]) -> str:
        """Tell that the tools are others now."""
        server.add_tool(change, name="another")
        await ctx.notify_tools_changed()
        return "changed"

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    over_sse = sys.argv[1] == "sse"
    app = server.sse_app() if over_sse else server.streamable_http_app()
    sys.stdout.write(f"{address}/{'sse' if over_sse else 'mcp'}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
