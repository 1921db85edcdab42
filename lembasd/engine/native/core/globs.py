"""A glob that a model names files by: a name at any depth, or a path from the folder it looks in."""

import re
from typing import Final

from lembasd.engine.native.core.wildcard import path_regex, segment_regex

#: patterns that braces may stand for; more is no pattern a person would write
MAX_ALTERNATIVES: Final = 64
#: what a name pattern may hold to be handed on as it is: it means the same to whoever looks for names
_PLAIN: Final = re.compile(r"[\w.*-]+")


class Glob:
    """`*.py`, `src/**/*.{ts,tsx}`, `[ab]?.txt`. Raises ValueError, with a sentence, for what is no glob."""

    def __init__(self, pattern: str) -> None:
        if pattern.startswith("/"):
            raise ValueError(f"{pattern} is absolute; give `path` the folder, and a glob below it")
        alternatives = [_plain(one) for one in _expanded(pattern)]
        parts = []
        for one in alternatives:
            try:
                parts.append(_regex(one))
            except ValueError as error:
                raise ValueError(f"{pattern} is no glob: {error}") from None
        self._regex = re.compile("|".join(parts))
        names = [one.rpartition("/")[2] for one in alternatives]
        plain = all(_PLAIN.fullmatch(one) and one.strip("*") for one in names)
        #: the names say all
        self._is_by_name = plain and all(
            one.removeprefix("**/") == name for one, name in zip(alternatives, names, strict=True)
        )
        #: globs of names, one of which every match has; none when nothing sure can be said
        self.names: tuple[str, ...] = tuple(sorted({*names})) if plain else ()

    def matches(self, path: str) -> bool:
        """Whether a path, from the folder that is looked in, is meant."""
        return self._regex.fullmatch(path) is not None

    def among(self, paths: list[str]) -> list[str]:
        """Those that are meant, of paths whose names match `names`."""
        if self._is_by_name:
            return paths
        match = self._regex.fullmatch
        return [path for path in paths if match(path)]


def _plain(pattern: str) -> str:
    return pattern + "**" if pattern.endswith("/") else pattern


def _regex(pattern: str) -> str:
    if not pattern:
        raise ValueError("it is empty")
    if "/" in pattern:
        while pattern.startswith("./"):
            pattern = pattern[2:]
        return f"(?:{path_regex(pattern.split('/'))})"
    if pattern == "**":
        return "(?s:.+)"
    return f"(?s:.*/)?(?:{segment_regex(pattern)})"


def _expanded(pattern: str) -> list[str]:
    """What the braces stand for."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        braces = _braces(one)
        if braces is None:
            done.append(one)
        else:
            start, end, parts = braces
            waiting += [one[:start] + part + one[end:] for part in parts]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ValueError(f"{pattern} stands for too many globs; use fewer braces")
    return done


def _braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """The first pair of braces: where it starts and ends, and its alternatives."""
    depth, start, cuts = 0, 0, [0]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char == "{":
            if depth == 0:
                start, cuts = at, [at]
            depth += 1
        elif char == "," and depth == 1:
            cuts.append(at)
        elif char == "}" and depth > 0:
            depth -= 1
            if depth == 0:
                ends = [*cuts[1:], at]
                return start, at + 1, [pattern[a + 1 : b] for a, b in zip(cuts, ends, strict=True)]
        at += 1
    return None
