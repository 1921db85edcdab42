"""The unified diff between two texts, quick on long ones of which little has changed."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from lembasd.engine.native.core.line_endings import common_head

#: lines around a change
CONTEXT: Final = 3
#: lines that differ at most, of both texts together, for what they have in common to be looked for
MAX_COMPARED: Final = 4000
#: lines of a diff; a longer one tells nobody anything
MAX_LINES: Final = 2000
NO_NEWLINE: Final = "\\ No newline at end of file"

#: tag, and the lines it speaks of: from and to, of the old and of the new
_Op = tuple[str, int, int, int, int]


def unified(old: str, new: str, name: str, *, before: str | None = None) -> str:
    """The diff, "" for none. `before`: the name that the old one had, where it is another."""
    a, b = _lines(old), _lines(new)
    if a == b:
        return ""
    lines = [f"--- {_side('a', before or name)}", f"+++ {_side('b', name)}"]
    for hunk in _hunks(_changes(a, b)):
        lines += _rendered(hunk, a, b)
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"[{len(lines) - MAX_LINES} lines left out]"]
    return "\n".join(lines)


def _side(letter: str, name: str) -> str:
    return name if name.startswith("/") else f"{letter}/{name}"


def _lines(text: str) -> list[str]:
    """The lines, each with its newline; only the last may have none."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _changes(a: list[str], b: list[str]) -> list[_Op]:
    """What differs, and what lies between, in order."""
    head = common_head(a, b)
    tail = common_head(a[head:][::-1], b[head:][::-1])
    left, right = a[head : len(a) - tail], b[head : len(b) - tail]
    if len(left) + len(right) > MAX_COMPARED:
        ops: list[_Op] = [("replace", 0, len(left), 0, len(right))]
    else:
        ops = [*SequenceMatcher(None, left, right).get_opcodes()]
    shifted = [(tag, i + head, j + head, k + head, m + head) for tag, i, j, k, m in ops]
    end = ("equal", len(a) - tail, len(a), len(b) - tail, len(b))
    return [("equal", 0, head, 0, head), *shifted, end]


def _hunks(ops: list[_Op]) -> Iterator[list[_Op]]:
    """The changes with the lines around them; those that are close stand together."""
    hunk: list[_Op] = []
    for op in ops:
        tag, i, j, k, m = op
        if tag != "equal":
            hunk.append(op)
        elif not hunk:
            hunk = [(tag, max(i, j - CONTEXT), j, max(k, m - CONTEXT), m)]
        elif j - i > 2 * CONTEXT:
            yield [*hunk, (tag, i, i + CONTEXT, k, k + CONTEXT)]
            hunk = [(tag, j - CONTEXT, j, m - CONTEXT, m)]
        else:
            hunk.append(op)
    if len(hunk) > 1:
        tag, i, j, k, m = hunk[-1]
        yield [*hunk[:-1], (tag, i, min(j, i + CONTEXT), k, min(m, k + CONTEXT))]


def _rendered(hunk: list[_Op], a: list[str], b: list[str]) -> Iterator[str]:
    first, last = hunk[0], hunk[-1]
    yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
    for tag, i, j, k, m in hunk:
        if tag == "equal":
            yield from _signed(" ", a[i:j])
        else:
            yield from _signed("-", a[i:j])
            yield from _signed("+", b[k:m])


def _range(start: int, end: int) -> str:
    count = end - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _signed(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        # a \r belongs to the ending, which a reader of the diff does not see
        yield sign + line.removesuffix("\n").removesuffix("\r")
        if not line.endswith("\n"):
            yield NO_NEWLINE
