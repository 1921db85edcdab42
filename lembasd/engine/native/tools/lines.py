"""A part of a long text, never more than a result shows, with where to go on."""

from collections.abc import Callable

from msgspec import Struct

from lembasd.harness.loader import LOOP


class Part(Struct, frozen=True):
    """Lines `first` to `last` of `total`, as they are shown."""

    text: str
    first: int
    last: int
    total: int


def part_of(
    lines: list[str], offset: int, limit: int | None, shown: Callable[[int, str], str], verb: str
) -> Part:
    """At most `limit` lines from `offset` (from 1) on, as far as a result has room; `verb`: what to do to go on."""
    context = LOOP.context
    wanted = min(limit or context.max_lines, context.max_lines)
    out: list[str] = []
    chars = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + wanted], offset):
        text = shown(number, line)
        chars += len(text) + 1
        if out and chars > context.max_chars - 200:  # room for the last line
            break
        out.append(text)
    last = offset + len(out) - 1
    if last < len(lines):
        out.append(f"[lines {offset}-{last} of {len(lines)}; {verb} on with offset {last + 1}]")
    return Part("\n".join(out), offset, last, len(lines))
