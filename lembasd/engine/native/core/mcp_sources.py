"""Which MCP servers a session has: of the project, of the person's config, of the client; and their variables.

A server of the same name counts once: the client's before the config's before the project's, so that a project can
never put its own in the place of a person's.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lembasd.protocol.mcp import McpServer, read_server, read_servers

#: of a trusted project, at its root
PROJECT_FILE: Final = ".mcp.json"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class Sources(Struct, frozen=True):
    """The servers to start, and one sentence for each that cannot be."""

    servers: list[McpServer] = []
    problems: list[str] = []


def is_instances(url: str, base_url: str) -> bool:
    """Whether a server's address is that of the instance's own tools (link.md, The HTTP API)."""
    return url.rstrip("/") == f"{base_url.rstrip('/')}/mcp"


def read_project(text: str) -> Sources:
    """The servers of a project's file. One that cannot be read leaves the others as they are."""
    try:
        said: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return Sources(problems=[f"{PROJECT_FILE} is not JSON ({error}); correct it"])
    block = said.get("mcpServers") if isinstance(said, Mapping) else None
    if not isinstance(block, Mapping):
        return Sources(problems=[f"{PROJECT_FILE} has no mcpServers; correct it, or remove it"])
    servers: list[McpServer] = []
    problems: list[str] = []
    for name, value in block.items():
        try:
            # a project's file cannot say for the person what is to be trusted
            servers.append(replace(read_server(name, value), trust_read_only=False))
        except ValueError as error:
            problems.append(f"{name} of {PROJECT_FILE} must be {error}; correct it")
    try:
        read_servers({name: block[name] for name in (one.name for one in servers)})
    except ValueError as error:
        return Sources(problems=[f"{PROJECT_FILE} must have {error}; correct it"])
    return Sources(servers, problems)


def merged(
    project: list[McpServer], config: list[McpServer], client: list[McpServer]
) -> list[McpServer]:
    """One server for each name, in the order of their names."""
    by_name = {one.name: one for one in (*project, *config, *client)}
    return [by_name[name] for name in sorted(by_name)]


def expanded(server: McpServer, environment: Mapping[str, str]) -> McpServer:
    """The server with `${NAME}` and `${NAME:-default}` filled in. Raises KeyError(NAME) where nothing is set."""

    def fill(text: str) -> str:
        return _VARIABLE.sub(value, text)

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        found = environment.get(name)
        if found:
            return found
        if default is None:
            raise KeyError(name)
        return default

    return replace(
        server,
        command=fill(server.command),
        args=[fill(one) for one in server.args],
        env={name: fill(one) for name, one in server.env.items()},
        cwd=None if server.cwd is None else fill(server.cwd),
        url=fill(server.url),
        headers={name: fill(one) for name, one in server.headers.items()},
    )
