"""The demo model: a deterministic player of short scripts that uses the tools it is offered. Pure.

The last user message chooses the script, the number of tool results after it the step. It is no language model and
says so.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

MODEL: Final = "demo"
NAME: Final = "Demo (scripted, no real model)"
#: between two pieces of an ordinary reply, and of a slow count
PAUSE_S: Final = 0.005
SLOW_PAUSE_S: Final = 0.05
#: what the model hands on of a tool's output
TAIL_CHARS: Final = 400
#: a count beyond it is cut: a demo that runs for hours shows nothing new
MAX_COUNT: Final = 10_000
#: a longer pause is cut: a model that says nothing for longer would be taken for dead
MAX_PAUSE_S: Final = 10.0
_NOTE: Final = "(demo model, no language model)"


class Message(Struct, frozen=True):
    """One message of the request; `content` is a text or a list of parts."""

    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(
                str(part["text"]) for part in self.content if isinstance(part.get("text"), str)
            )
        return self.content or ""


class Function(Struct, frozen=True):
    name: str


class Tool(Struct, frozen=True):
    function: Function


class Request(Struct, frozen=True):
    """What the player reads of a chat completion request."""

    messages: list[Message]
    tools: list[Tool] = []


class Piece(Struct, frozen=True):
    """A part of the reply's text, given after a pause."""

    text: str
    pause_s: float


class Call(Struct, frozen=True):
    """A tool call that ends the reply."""

    call_id: str
    name: str
    arguments: str


class Reply(Struct, frozen=True):
    """Text first, then at most one call."""

    pieces: list[Piece]
    call: Call | None = None

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class _Step(Struct, frozen=True):
    tool: str
    arguments: dict[str, str]
    says: str


_Script = Callable[[re.Match[str]], list[_Step]]


def _fix(found: re.Match[str]) -> list[_Step]:
    path = found[1]
    return [
        _Step("read", {"path": path}, f"I read {path} first."),
        _Step("edit", {"path": path, "old": "Helo", "new": "Hello"}, "A letter is missing."),
        _Step("bash", {"command": f"python3 {path}"}, "Now I run it."),
    ]


def _run(found: re.Match[str]) -> list[_Step]:
    return [_Step("bash", {"command": found[1]}, "I run the command.")]


def _read(found: re.Match[str]) -> list[_Step]:
    return [_Step("read", {"path": found[1]}, "I read the file.")]


def _write(found: re.Match[str]) -> list[_Step]:
    return [_Step("write", {"path": found[1], "content": found[2]}, "I write the file.")]


def _list(found: re.Match[str]) -> list[_Step]:
    return [_Step("list", {"path": found[1]}, "I list the directory.")]


_SCRIPTS: Final[Sequence[tuple[re.Pattern[str], _Script]]] = (
    (re.compile(r"^fix (\S+)\s*$", re.MULTILINE), _fix),
    (re.compile(r"^run: (.+)$", re.MULTILINE), _run),
    (re.compile(r"^read: (\S+)\s*$", re.MULTILINE), _read),
    (re.compile(r"^write: (\S+) (.*)\Z", re.MULTILINE | re.DOTALL), _write),
    (re.compile(r"^list: (\S+)\s*$", re.MULTILINE), _list),
)
#: "count to 200 slowly", "count to 200 slowly, every 20 ms"
_COUNT: Final = re.compile(
    r"\bcount to (\d{1,9}) slowly\b(?:,? every (\d{1,9}) ms\b)?", re.IGNORECASE
)


def reply(request: Request) -> Reply:
    """The model's whole reply to a request."""
    asked, results = _since_last_user(request.messages)
    counted = _COUNT.search(asked)
    if counted:
        return _count(int(counted[1]), counted[2])
    for pattern, script in _SCRIPTS:
        found = pattern.search(asked)
        if found:
            return _play(script(found), request, results)
    return Reply(_pieces(f"You said: {asked} {_NOTE}"))


def _count(last: int, every_ms: str | None) -> Reply:
    pause_s = SLOW_PAUSE_S if every_ms is None else min(int(every_ms) / 1000, MAX_PAUSE_S)
    numbers = range(1, min(last, MAX_COUNT) + 1)
    return Reply([Piece(f"{_NOTE} ", 0.0), *(Piece(f"{number} ", pause_s) for number in numbers)])


def _since_last_user(messages: list[Message]) -> tuple[str, list[str]]:
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            return message.text, results[::-1]
        if message.role == "tool":
            results.append(message.text)
    return "", results[::-1]


def _play(steps: list[_Step], request: Request, results: list[str]) -> Reply:
    if len(results) >= len(steps):
        tail = results[-1].strip()[-TAIL_CHARS:]
        return Reply(_pieces(f"Done {_NOTE}. The last tool said:\n{tail}"))
    step = steps[len(results)]
    if step.tool not in {tool.function.name for tool in request.tools}:
        return Reply(_pieces(f"I need the tool {step.tool}, which is not offered {_NOTE}."))
    # unique in its conversation, and the same each time it is asked
    number = sum(message.role == "tool" for message in request.messages) + 1
    arguments = msgspec.json.encode(step.arguments).decode()
    return Reply(_pieces(step.says), Call(f"call_demo_{number}", step.tool, arguments))


def _pieces(text: str) -> list[Piece]:
    return [Piece(word, PAUSE_S) for word in re.findall(r"\S*\s*", text) if word]
