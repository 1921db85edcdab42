"""The functions that a session's model is offered: our own, and those of MCP servers."""

from typing import Any, Final

import msgspec

from lembasd.engine.api import Host
from lembasd.engine.native.core.context import Conversation
from lembasd.engine.native.mcp.servers import Servers
from lembasd.harness.loader import NAMES, TOOLS, function, is_offered
from lembasd.store.records import ToolsOffered

#: sent with every request of a session, and the same for all of them: the prefix stays still
_OWN: Final = [function(tool) for tool in TOOLS.values() if is_offered(tool)]


class Offered:
    """Fixed before the session's first request, and the same for each of them."""

    def __init__(self, host: Host, conversation: Conversation, servers: Servers) -> None:
        self._host = host
        self._conversation = conversation
        self._servers = servers
        self._is_fixed = False
        self.functions: list[dict[str, Any]] = _OWN
        #: bytes of them as they are sent
        self.size = len(msgspec.json.encode(_OWN))

    @property
    def names(self) -> dict[str, str]:
        """The name of a tool by each of its names."""
        return {**NAMES, **{name: name for name in self._servers.tools}}

    async def fix(self) -> None:
        """Start the session's servers where nothing was asked yet, and record what they offer. Raises OSError."""
        if self._is_fixed:
            return
        if self._conversation.tools is None:
            tools = await self._servers.fix()
            record = ToolsOffered(tools=tools or [])
            if tools is not None:
                self._host.record(record)
            self._conversation.apply(record)
        self._servers.take(self._conversation.tools or [])
        self._is_fixed = True
        if self._servers.tools:
            self.functions = [*_OWN, *map(function, self._servers.tools.values())]
            self.size = len(msgspec.json.encode(self.functions))
