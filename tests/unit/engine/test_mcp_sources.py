"""Where a session's MCP servers come from."""

import json
from typing import Any

import pytest

from lembasd.engine.native.core.mcp_sources import (
    Sources,
    expanded,
    is_instances,
    merged,
    read_project,
)
from lembasd.protocol.mcp import MAX_SERVERS, McpServer


def test_the_clients_server_counts_before_the_configs_before_the_projects() -> None:
    def named(name: str, command: str) -> McpServer:
        return McpServer(name=name, command=command)

    assert merged(
        [named("a", "project"), named("c", "project")],
        [named("a", "config"), named("b", "config")],
        [named("b", "client")],
    ) == [named("a", "config"), named("b", "client"), named("c", "project")]


def test_a_projects_servers_are_read_and_never_trusted() -> None:
    said = {"mcpServers": {"a": {"command": "x", "trust_read_only": True}, "b": {"command": 7}}}
    assert read_project(json.dumps(said)) == Sources(
        servers=[McpServer(name="a", command="x")],
        problems=["b of .mcp.json must be given command as a text; correct it"],
    )


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("{", "is not JSON"),
        ("[" * 5000, "is not JSON"),
        ("[]", "has no mcpServers"),
        ('{"mcpServers": []}', "has no mcpServers"),
        (
            json.dumps({"mcpServers": {f"s{n}": {"command": "x"} for n in range(MAX_SERVERS + 1)}}),
            "must have at most 32 servers",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_one_problem(said: str, says: str) -> None:
    found = read_project(said)
    assert found.servers == []
    assert [says in one for one in found.problems] == [True]


def test_variables_are_filled_in_everywhere() -> None:
    server = McpServer(
        name="a",
        command="${HOME}/run",
        args=["--x=${X:-1}", "$HOME", "${}"],
        env={"K": "${KEY}"},
        cwd="${HOME}",
        url="http://${HOST:-h}/",
        headers={"A": "Bearer ${KEY}"},
    )
    environment: dict[str, Any] = {"HOME": "/h", "KEY": "k", "X": ""}
    assert expanded(server, environment) == McpServer(
        name="a",
        command="/h/run",
        args=["--x=1", "$HOME", "${}"],
        env={"K": "k"},
        cwd="/h",
        url="http://h/",
        headers={"A": "Bearer k"},
    )


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(KeyError, match="KEY"):
        expanded(McpServer(name="a", command="${KEY}"), {})


@pytest.mark.parametrize(
    ("url", "is_it"),
    [
        ("https://m.example/mcp", True),
        ("https://m.example/mcp/", True),
        ("https://m.example/other", False),
        ("https://m.example.evil/mcp", False),
        ("", False),
    ],
)
def test_the_instances_own_server_is_known_by_its_address(url: str, is_it: bool) -> None:
    assert is_instances(url, "https://m.example/") is is_it
