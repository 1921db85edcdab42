"""MCP servers as the person's files and a local client write them down, and reading both.

What cannot be taken is ValueError: what was expected, to be put after "must be".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

#: servers of one source; more is a mistake, and each would be a process of every session
MAX_SERVERS: Final = 32
#: characters of a server's name: it is a part of its tools' names
MAX_NAME_CHARS: Final = 64
#: arguments, variables or headers of one server; more is a mistake
MAX_ENTRIES: Final = 256
#: characters over all texts of one source: it travels with the settings to every worker
MAX_CHARS: Final = 65_536
#: seconds a call may be given at most, an hour
MAX_TIMEOUT_S: Final = 3600.0
#: seconds a call may take where its server says nothing
TIMEOUT_S: Final = 120.0

Transport = Literal["stdio", "http", "sse"]
_KEYS: Final = frozenset(
    {"type", "command", "args", "env", "cwd", "timeout", "url", "headers", "trust_read_only"}
)


class McpServer(Struct, frozen=True, omit_defaults=True):
    """One server: a command that is started (stdio), or a url that is asked (http, sse).

    `env` and `headers` may hold secrets: a server is never logged, recorded or shown but by its name.
    """

    name: str
    transport: Transport = "stdio"
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    #: relative to the session's directory
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    #: seconds one call may take
    timeout_s: float = TIMEOUT_S
    #: the person takes the server's word for which of its tools only read
    trust_read_only: bool = False

    def __repr__(self) -> str:
        return f"McpServer(name={self.name!r}, transport={self.transport!r}, …)"


def read_servers(block: Mapping[Any, Any]) -> list[McpServer]:
    """The servers of a block `name: {command, args, env, cwd, timeout} | {url, headers, type, timeout}`.

    Raises ValueError.
    """
    servers = [read_server(name, value) for name, value in block.items()]
    _check(servers)
    return servers


def read_server(name: Any, value: Any) -> McpServer:
    """One entry of such a block. Raises ValueError."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        raise ValueError(f"named by a text of 1 to {MAX_NAME_CHARS} characters")
    if not isinstance(value, Mapping):
        raise ValueError("a block with a command or a url")
    unknown = sorted(str(key) for key in value if key not in _KEYS)
    if unknown:
        # an entry that is half understood would start something else than was meant
        raise ValueError(f"made of {', '.join(sorted(_KEYS))}, not {unknown[0]}")
    command, url = _text(value, "command"), _text(value, "url")
    if bool(command) == bool(url):
        raise ValueError("given either a command or a url")
    return McpServer(
        # plain: a quoted text of a YAML file is of a kind of its own, which no encoder takes
        name=str(name),
        transport=_transport(value.get("type"), is_command=bool(command)),
        command=command,
        args=_texts(value.get("args"), "args"),
        env=_named(value.get("env"), "env"),
        cwd=_text(value, "cwd") or None,
        url=_web_address(url) if url else "",
        headers=_named(value.get("headers"), "headers"),
        timeout_s=_seconds(value.get("timeout")),
        trust_read_only=_flag(value.get("trust_read_only")),
    )


def read_client_servers(entries: Sequence[Any]) -> list[McpServer]:
    """The `mcpServers` of ACP's session/new: variables and headers come as lists of {name, value}.

    Raises ValueError.
    """
    servers: list[McpServer] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise ValueError("a list of objects")
        value = {key: one for key, one in entry.items() if key not in ("name", "_meta")}
        for key in ("env", "headers"):
            if key in value:
                value[key] = _pairs(value[key], key)
        if "trust_read_only" in value:
            raise ValueError("without trust_read_only: it is the person's to set, in config.yaml")
        servers.append(read_server(entry.get("name"), value))
    _check(servers)
    return servers


def _check(servers: list[McpServer]) -> None:
    if len(servers) > MAX_SERVERS:
        raise ValueError(f"at most {MAX_SERVERS} servers")
    if len({one.name for one in servers}) < len(servers):
        raise ValueError("given a name of its own for each server")
    if sum(map(_chars, servers)) > MAX_CHARS:
        raise ValueError(f"at most {MAX_CHARS} characters in all")


def _chars(server: McpServer) -> int:
    pairs = [*server.env.items(), *server.headers.items()]
    texts = [server.command, server.url, *server.args, *(one for pair in pairs for one in pair)]
    return sum(map(len, texts))


def _transport(kind: Any, *, is_command: bool) -> Transport:
    allowed: dict[Any, Transport] = (
        {None: "stdio", "stdio": "stdio"}
        if is_command
        else {None: "http", "http": "http", "streamable-http": "http", "sse": "sse"}
    )
    if not isinstance(kind, str | None) or kind not in allowed:
        raise ValueError(f"of a type among {', '.join(key for key in allowed if key)}")
    return allowed[kind]


def _text(value: Mapping[Any, Any], key: str) -> str:
    text = value.get(key)
    if text is None:
        return ""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"given {key} as a text")
    return str(text)


def _texts(value: Any, key: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        raise ValueError(f"given {key} as a list of at most {MAX_ENTRIES} texts")
    return [_plain(one, key) for one in value]


def _named(value: Any, key: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > MAX_ENTRIES:
        raise ValueError(f"given {key} as at most {MAX_ENTRIES} names with their texts")
    named = {_plain(name, key): _plain(one, key) for name, one in value.items()}
    if any(not name or "=" in name for name in named):
        raise ValueError(f"given {key} with names that are not empty and have no =")
    if key == "headers" and any("\n" in one or "\r" in one for one in named.values()):
        raise ValueError("given headers of one line each")
    return named


def _pairs(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise ValueError(f"given {key} as a list of {{name, value}}")
    return {one.get("name"): one.get("value") for one in value}


def _plain(value: Any, key: str) -> str:
    """A text, or a number as somebody writes it where a text is meant."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        raise ValueError(f"given {key} of texts")
    return str(value)


def _web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("given a url that begins with http:// or https://")
    return url


def _seconds(value: Any) -> float:
    if value is None:
        return TIMEOUT_S
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= MAX_TIMEOUT_S
    ):
        raise ValueError(f"given a timeout above 0 and of at most {MAX_TIMEOUT_S:g} seconds")
    return float(value)


def _flag(value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise ValueError("given trust_read_only as true or false")
    return bool(value)
