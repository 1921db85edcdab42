"""What `/name` in a prompt stands for: reading what was typed, the files that define commands, and filling them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import UNSET, Struct

from lembasd.harness.loader import COMMANDS
from lembasd.protocol.acp import read_mode
from lembasd.protocol.control import Mode
from lembasd.protocol.lembas import (
    AvailableCommand,
    CommandInput,
    CommandLembas,
    CommandMeta,
)

Kind = Literal["builtin", "custom", "skill"]
#: characters of a description in a list
MAX_DESCRIPTION_CHARS: Final = 200
_TYPED: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:\s+|\Z)")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_HEAD: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_LINE: Final = re.compile(r"([A-Za-z_-]+)[ \t]*:[ \t]*(.*?)[ \t]*\r?\Z")
_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")
_WORD: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|(\S+)")


class Command(Struct, frozen=True):
    """A command of a session. `body`: the text of a custom one; `own`: the person's, not the project's.

    `mode`, `model`, `effort`: what its prompt runs with; None or "": the session's.
    """

    name: str
    description: str
    hint: str = ""
    kind: Kind = "builtin"
    body: str = ""
    own: bool = False
    mode: Mode | None = None
    model: str = ""
    effort: str = ""

    @property
    def wire(self) -> AvailableCommand:
        return AvailableCommand(
            name=self.name,
            description=self.description,
            input=CommandInput(self.hint) if self.hint else UNSET,
            meta=CommandMeta(CommandLembas(self.kind)),
        )


class Typed(Struct, frozen=True):
    """A prompt that may be a command, and what follows its name."""

    name: str
    args: str


def typed(text: str) -> Typed | None:
    """What a text that starts with `/name` asks for; None for any other, such as a path."""
    found = _TYPED.match(text)
    return None if found is None else Typed(found[1], text[found.end() :].strip())


def is_name(name: str) -> bool:
    """Whether a file of this name (without `.md`) can be a command."""
    return _NAME.match(name) is not None and name not in COMMANDS.reserved


def read(name: str, text: str, *, own: bool) -> Command:
    """The command that a Markdown file defines: its head says description, hint and mode, the rest is its text."""
    head, body = _split(text)
    lines = [line.strip("# \t") for line in body.splitlines() if line.strip()]
    description = head.get("description") or (lines[0] if lines else name)
    return Command(
        name=name,
        description=_short(description),
        hint=_short(head.get("hint") or head.get("argument-hint") or ""),
        kind="custom",
        body=body.strip(),
        own=own,
        mode=read_mode(head.get("mode", "")),
        model=head.get("model", ""),
        effort=head.get("effort", ""),
    )


def _split(text: str) -> tuple[dict[str, str], str]:
    found = _HEAD.match(text)
    if found is None:
        return {}, text.removeprefix("\ufeff")
    lines = (_LINE.match(line) for line in found[1].split("\n"))
    head = {line[1].lower(): line[2].strip("\"'") for line in lines if line is not None}
    return head, text[found.end() :]


def _short(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text).strip()
    return (
        plain if len(plain) <= MAX_DESCRIPTION_CHARS else plain[: MAX_DESCRIPTION_CHARS - 1] + "…"
    )


def together(project: Iterable[Command], own: Iterable[Command]) -> dict[str, Command]:
    """The set, in its order: what is built in, the project's, the person's own.

    What came with a project never takes the name of what the person wrote.
    """
    persons = {one.name: one for one in own}
    found = {one.name: Command(one.name, one.description, one.hint) for one in COMMANDS.builtin}
    found |= {one.name: one for one in project if one.name not in persons}
    return found | persons


def filled(body: str, args: str) -> str:
    """A command's text with what was typed after its name: `$ARGUMENTS`, `$1` to `$9`, else at the end."""
    if not _PLACE.search(body):
        return f"{body}\n\n{args}" if args else body
    words = ["".join(parts) for parts in _WORD.findall(args)]
    places = {str(number): word for number, word in enumerate(words, 1)} | {"ARGUMENTS": args}
    return _PLACE.sub(lambda found: places.get(found[1], ""), body)


def offered(commands: Mapping[str, Command]) -> list[AvailableCommand]:
    """The set as a client is told of it."""
    return [one.wire for one in commands.values()]
