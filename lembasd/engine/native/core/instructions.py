"""Instruction files: which of a project's own texts a session begins with, and how they are put together."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Final

from msgspec import Struct

#: in one directory the first of these that is there counts
NAMES: Final = ("AGENTS.md", "CLAUDE.md")
#: characters of one file; what is longer is a book
MAX_CHARS: Final = 32_768
#: directories looked at, the nearest to the session's own
MAX_DEPTH: Final = 32
#: of a file's hash: it finds changes, and guards nothing
DIGEST_CHARS: Final = 16


class Instruction(Struct, frozen=True):
    """One file. `name` is its path below the boundary, `path` its path as the session's tools take it."""

    name: str
    text: str
    path: str


def stacked(
    boundary: PurePath, start: PurePath, read: Callable[[PurePath], str | None]
) -> list[Instruction]:
    """The files from `boundary` down to `start`, outermost first, one for each directory.

    `read` gives a file's text, None where there is none that this session may read.
    """
    below = [start, *start.parents]
    inside = [one for one in below if one == boundary or boundary in one.parents][:MAX_DEPTH]
    found: list[Instruction] = []
    for directory in reversed(inside):
        up = [".."] * len(start.relative_to(directory).parts)
        for name in NAMES:
            text = read(directory / name)
            if text is not None and text.strip():
                shown = str((directory / name).relative_to(boundary))
                found.append(Instruction(shown, _cut(text), "/".join([*up, name])))
                break
    return found


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n[the rest is left out]"


def rendered(found: list[Instruction]) -> str:
    """The files as a part of the system prompt, "" without any."""
    if not found:
        return ""
    parts = [f"## {one.name}\n\n{one.text}" for one in found]
    return "\n\n".join(["# Instructions of this project", *parts])


def digests(found: Sequence[Instruction]) -> dict[str, str]:
    """A hash of each file's text, by its path."""
    return {one.path: hashlib.sha256(one.text.encode()).hexdigest()[:DIGEST_CHARS] for one in found}


def changes(
    before: Mapping[str, str], now: Mapping[str, str], texts: Mapping[str, str]
) -> list[str]:
    """What a session is told of files that are not what they were; both by path as `digests` gives them."""
    said: list[str] = []
    for path in sorted({*before, *now}):
        if before.get(path) == now.get(path):
            continue
        kind = "new" if path not in before else "gone" if path not in now else "changed"
        said.append(texts[f"instructions_{kind}"].replace("{{file}}", path))
    return said
