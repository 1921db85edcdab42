"""What git ignores: the patterns of its files, and their verdict on a path.

Own code, held against `git check-ignore`: the libraries for it differ from git in corners, and run for seconds on
patterns that a project may hold.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from lembasd.engine.native.core.wildcard import path_regex, segment_regex


class Rule(Struct, frozen=True):
    """One pattern, in bytes. `by_name`: it is held against the last name alone, at any depth."""

    regex: re.Pattern[str]
    by_name: bool
    negated: bool
    directories: bool


class Level(Struct, frozen=True):
    """The rules of one file; they speak of what lies below `base`, a path from the repository's root ("": all)."""

    base: str
    rules: tuple[Rule, ...]


def parse(text: str) -> tuple[Rule, ...]:
    """The rules of an ignore file. A pattern that can match nothing is left out."""
    lines = _as_bytes(text.removeprefix("\ufeff")).split("\n")
    found = (_rule(line.removesuffix("\r")) for line in lines)
    return tuple(one for one in found if one is not None)


def is_ignored(levels: Sequence[Level], path: str, *, is_dir: bool) -> bool:
    """Whether the files say so of a path whose folders are not ignored; of `levels` the last is asked first."""
    for level in reversed(levels):
        below = _as_bytes(path[len(level.base) + 1 :] if level.base else path)
        for rule in reversed(level.rules):
            if rule.directories and not is_dir:
                continue
            if rule.regex.fullmatch(below.rpartition("/")[2] if rule.by_name else below):
                return not rule.negated
    return False


def _as_bytes(text: str) -> str:
    """A character for each byte, as git counts."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    line = _without_trailing_spaces(line)
    negated = line.startswith("!")
    line = line.removeprefix("!")
    directories = line.endswith("/")
    line = line.removesuffix("/")
    if not line:
        return None
    by_name = "/" not in line
    try:
        text = segment_regex(line) if by_name else path_regex(line.removeprefix("/").split("/"))
        return Rule(re.compile(text), by_name, negated, directories)
    except (ValueError, re.error):
        return None


def _without_trailing_spaces(line: str) -> str:
    """Without the spaces at the end that no backslash keeps."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if escapes % 2 and len(bare) < len(line) else bare
