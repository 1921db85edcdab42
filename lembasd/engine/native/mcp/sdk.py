"""The MCP SDK, loaded for the first session that has a server: it takes half a second and 36 MB.

So nothing of it is imported where a worker without servers would pay for it.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import SessionMessage

#: the SDK and its HTTP client log what servers send and which addresses are asked
_LOGGERS = ("mcp", "httpx2", "httpcore2")


@dataclass(frozen=True)
class Sdk:
    """What is used of it."""

    Client: "type[Client]"
    MCPError: "type[MCPError]"
    SessionMessage: "type[SessionMessage]"
    types: "Any"
    http_client: Any
    sse_client: Any
    httpx: Any


def _load() -> Sdk:
    import httpx2
    import mcp_types
    from mcp.client.client import Client
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import SessionMessage

    for name in _LOGGERS:
        quiet = logging.getLogger(name)
        quiet.propagate = False
        quiet.addHandler(logging.NullHandler())
    return Sdk(
        Client, MCPError, SessionMessage, mcp_types, streamable_http_client, sse_client, httpx2
    )


async def load() -> Sdk:
    """Load it beside the loop. Raises ImportError."""
    return await asyncio.to_thread(_load)
