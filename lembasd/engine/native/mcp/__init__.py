"""MCP servers of a session: their processes and connections. What is decided about them is in `core/mcp_*`."""
