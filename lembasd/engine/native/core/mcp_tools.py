"""What a session's model is offered of the tools of MCP servers: names, risks, bounds. Fixed for the session.

A server's word on its own tools is a claim: a tool counts as one that executes, unless the person takes the
server's word for those that only read.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from lembasd.engine.native.core.mcp_schemas import described, sanitised
from lembasd.harness.tool import Tool
from lembasd.store.records import OfferedTool

PREFIX: Final = "mcp__"
#: what servers of models take as a function's name
MAX_NAME_CHARS: Final = 64
#: tools of one session, all servers together; several model servers take 128 functions with our own
MAX_TOOLS: Final = 96

_FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_HASH_CHARS: Final = 8
_HASHED: Final = re.compile(r"_[0-9a-f]{8}$")


class Listed(Struct, frozen=True):
    """A tool as its server lists it. `read_only`: the server claims so."""

    server: str
    name: str
    description: str = ""
    schema: Any = None
    read_only: bool = False


def offered(listed: Sequence[Listed], trusted: frozenset[str]) -> tuple[list[OfferedTool], int]:
    """The tools to offer, and how many more there were. `trusted`: servers whose word on reading is taken.

    The order and the names depend on the tools alone, not on which server was the first to answer.
    """
    ordered = sorted(listed, key=_place)
    unique = list({_place(one): one for one in ordered}.values())
    kept = _fair(unique)
    tools = {
        name: OfferedTool(
            name=name,
            server=one.server,
            tool=one.name,
            description=described(one.description) or f"{one.name} of {one.server}",
            parameters=sanitised(one.schema),
            risk="read" if one.read_only and one.server in trusted else "execute",
        )
        for one, name in reversed(list(zip(kept, _names(kept), strict=True)))
    }
    made = list(reversed(tools.values()))
    return made, len(unique) - len(made)


def _place(one: Listed) -> tuple[str, str]:
    return one.server, one.name


def _fair(ordered: list[Listed]) -> list[Listed]:
    """As many as a session has, taken from each server in turn: one with hundreds leaves the others theirs."""
    taken: Counter[str] = Counter()
    ranked: list[tuple[int, Listed]] = []
    for one in ordered:
        ranked.append((taken[one.server], one))
        taken[one.server] += 1
    first = sorted(ranked, key=lambda pair: pair[0])[:MAX_TOOLS]
    return sorted((one for _, one in first), key=_place)


def _names(listed: Sequence[Listed]) -> list[str]:
    """`mcp__<server>__<tool>`; what would be too long, or be (or look like) another's, ends in a hash of both."""
    plain = [_plain(f"{PREFIX}{_plain(one.server)}__{one.name}") for one in listed]
    count = Counter(plain)
    return [
        name
        if len(name) <= MAX_NAME_CHARS and count[name] == 1 and not _HASHED.search(name)
        else f"{name[: MAX_NAME_CHARS - _HASH_CHARS - 1]}_{_hash(one)}"
        for one, name in zip(listed, plain, strict=True)
    ]


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("_", text)


def _hash(one: Listed) -> str:
    text = f"{one.server}\0{one.name}".encode(errors="replace")
    return hashlib.sha256(text).hexdigest()[:_HASH_CHARS]


def as_tool(offered_tool: OfferedTool) -> Tool:
    """A tool of a server as the harness writes its own down."""
    return Tool(
        name=offered_tool.name,
        scope="cli",
        sessions="agent",
        risk=offered_tool.risk,
        exclusive=False,
        block="tool",
        purpose=False,
        description=offered_tool.description,
        parameters=offered_tool.parameters,
    )
