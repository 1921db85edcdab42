"""A part of a long text, never more than a result shows, with where to go on."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from lembasd.harness.loader import LOOP


class Part(Struct, frozen=True):
    """Lines `first` to `last` of `total`, as they are shown."""

    text: str
    first: int
    last: int
    total: int


def most_lines(limit: int | None) -> int:
    """How many lines of a text a result shows at most."""
    return min(limit or LOOP.context.max_lines, LOOP.context.max_lines)


def part_of(
    lines: Sequence[str],
    offset: int,
    limit: int | None,
    shown: Callable[[int, str], str],
    verb: str,
) -> Part:
    """At most `limit` lines from `offset` (from 1) on, as far as a result has room; `verb`: what to do to go on."""
    wanted = lines[offset - 1 : offset - 1 + most_lines(limit)]
    return shown_part(wanted, offset, len(lines), shown, verb)


def shown_part(
    wanted: Sequence[str], offset: int, total: int, shown: Callable[[int, str], str], verb: str
) -> Part:
    """The same for lines that are picked out already, of `total`."""
    out: list[str] = []
    chars = 0
    for number, line in enumerate(wanted, offset):
        text = shown(number, line)
        chars += len(text) + 1
        if out and chars > LOOP.context.max_chars - 200:  # room for the last line
            break
        out.append(text)
    last = offset + len(out) - 1
    if last < total:
        out.append(f"[lines {offset}-{last} of {total}; {verb} on with offset {last + 1}]")
    return Part("\n".join(out), offset, last, total)
