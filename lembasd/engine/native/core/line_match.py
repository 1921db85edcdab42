"""Where lines stand among others: exactly, or differing in nothing that could mean another place."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

#: characters that are written for one another, one for one
PLAIN_MARKS: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
    }
)
_SPACE: Final = " \t"


def trimmed(line: str) -> str:
    """Without the spaces and tabs at its end."""
    return line.rstrip(_SPACE)


def bare(line: str) -> str:
    """Without those at its beginning either."""
    return line.strip(_SPACE)


def plain_marks(line: str) -> str:
    """With plain quotes, dashes and spaces, and without spaces at its end."""
    return line.translate(PLAIN_MARKS).rstrip(_SPACE)


def lines_at(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> Iterator[int]:
    """Where these lines stand, from `start` on; nothing is found by empty lines alone."""
    if not any(wanted):
        return
    first, count = wanted[0], len(wanted)
    at = start - 1
    while True:
        try:
            at = lines.index(first, at + 1)
        except ValueError:
            return
        if list(lines[at : at + count]) == list(wanted):
            yield at


def alike(
    lines: Sequence[str], wanted: Sequence[str], key: Callable[[str], str], start: int = 0
) -> Iterator[int]:
    """Where lines stand that have the same key."""
    return lines_at([key(line) for line in lines], [key(line) for line in wanted], start)


def moved(
    there: Sequence[str], old: Sequence[str], new: Sequence[str]
) -> tuple[list[str], list[str]] | None:
    """Old and new with the indentation that the file has; None where it is not the same for all lines."""
    given, has = next((a, b) for a, b in zip(old, there, strict=True) if bare(a))
    asked, found = _indent(given), _indent(has)
    if found.endswith(asked):
        more = found[: len(found) - len(asked)]
        old, new = ([more + one if bare(one) else one for one in part] for part in (old, new))
    elif asked.endswith(found):
        less = asked[: len(asked) - len(found)]
        if any(bare(one) and not one.startswith(less) for one in [*old, *new]):
            return None
        old, new = ([one.removeprefix(less) for one in part] for part in (old, new))
    else:
        return None
    same = all(trimmed(a) == trimmed(b) for a, b in zip(old, there, strict=True))
    return (old, new) if same else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_SPACE))]
