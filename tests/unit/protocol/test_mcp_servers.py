"""MCP servers as they are written down: what is read, and what each mistake is told as."""

from typing import Any

import pytest

from lembasd.protocol.mcp import (
    MAX_CHARS,
    MAX_SERVERS,
    McpServer,
    read_client_servers,
    read_server,
    read_servers,
)


def test_a_command_and_a_url_are_read() -> None:
    block = {
        "a": {"command": "run", "args": ["x", 1], "env": {"K": 2}, "cwd": "d", "timeout": 3},
        "b": {"url": "http://h/mcp", "type": "sse", "headers": {"A": "b"}},
        "c": {"type": "streamable-http", "url": "https://h/mcp", "trust_read_only": True},
    }
    assert read_servers(block) == [
        McpServer(name="a", command="run", args=["x", "1"], env={"K": "2"}, cwd="d", timeout_s=3.0),
        McpServer(name="b", transport="sse", url="http://h/mcp", headers={"A": "b"}),
        McpServer(name="c", transport="http", url="https://h/mcp", trust_read_only=True),
    ]


def test_a_clients_entry_is_read_as_acp_writes_it() -> None:
    entries: list[Any] = [
        {"name": "a", "command": "/run", "args": [], "env": [{"name": "K", "value": "v"}]},
        {
            "type": "http",
            "name": "b",
            "url": "https://h",
            "headers": [{"name": "A", "value": "b"}],
            "_meta": {},
        },
    ]
    assert read_client_servers(entries) == [
        McpServer(name="a", command="/run", env={"K": "v"}),
        McpServer(name="b", transport="http", url="https://h", headers={"A": "b"}),
    ]


def test_a_server_is_shown_without_what_may_be_secret() -> None:
    server = McpServer(name="a", command="run", args=["--key=s3cret"], env={"KEY": "s3cret"})
    assert repr(server) == "McpServer(name='a', transport='stdio', …)"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (7, {"command": "x"}, "named by a text"),
        ("", {"command": "x"}, "named by a text"),
        ("a", "run", "a block with a command or a url"),
        ("a", {}, "either a command or a url"),
        ("a", {"command": "x", "url": "http://h"}, "either a command or a url"),
        ("a", {"command": "x", "disabled": True}, "not disabled"),
        ("a", {"command": 7}, "command as a text"),
        ("a", {"command": "x\0"}, "command as a text"),
        ("a", {"command": "x", "type": "http"}, "type among stdio"),
        ("a", {"url": "http://h", "type": "stdio"}, "type among http, streamable-http, sse"),
        ("a", {"url": "http://h", "type": 7}, "type among"),
        ("a", {"url": "ftp://h"}, "begins with http"),
        ("a", {"command": "x", "args": "y"}, "args as a list"),
        ("a", {"command": "x", "args": ["y"] * 257}, "args as a list of at most 256"),
        ("a", {"command": "x", "args": [True]}, "args of texts"),
        ("a", {"command": "x", "env": ["y"]}, "env as at most 256 names"),
        ("a", {"command": "x", "env": {"a=b": "c"}}, "names that are not empty and have no ="),
        ("a", {"url": "http://h", "headers": {"a": "b\r\nc: d"}}, "headers of one line"),
        ("a", {"command": "x", "timeout": 0}, "timeout above 0"),
        ("a", {"command": "x", "timeout": True}, "timeout above 0"),
        ("a", {"command": "x", "trust_read_only": "yes"}, "trust_read_only as true or false"),
    ],
)
def test_a_mistake_is_told_as_what_was_expected(name: Any, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_server(name, value)


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (["a"], "a list of objects"),
        ([{"name": "a", "command": "x", "env": {"K": "v"}}], "env as a list of"),
        ([{"name": "a", "command": "x", "trust_read_only": True}], "the person's to set"),
        ([{"name": "a", "command": "x"}] * 2, "a name of its own"),
        ([{"name": str(n), "command": "x"} for n in range(MAX_SERVERS + 1)], "at most 32 servers"),
        ([{"name": "a", "command": "x" * (MAX_CHARS + 1)}], "characters in all"),
    ],
)
def test_a_list_of_a_client_that_cannot_be_taken_is_refused(entries: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_client_servers(entries)
