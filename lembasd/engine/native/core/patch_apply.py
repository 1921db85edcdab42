"""A file's text after the hunks of a patch. Every hunk must fit in one place and no other, or nothing is changed."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from lembasd.engine.native.core.line_endings import Body, Piece
from lembasd.engine.native.core.line_match import alike, bare, moved, plain_marks, trimmed
from lembasd.engine.native.core.patch import Hunk


class Applied(Struct, frozen=True):
    """The text after it. `steps`: the ways in which hunks were found, exact ones left out."""

    text: str
    steps: tuple[str, ...] = ()


class Unfitting(Struct, frozen=True):
    """Nothing was changed; `reason` is a sentence for the model."""

    reason: str


class _Place(Struct, frozen=True):
    """The line a hunk begins at, in which way it was found, and the lines that it puts in, as the file wants them."""

    at: int
    step: str
    new: list[str]


class _After(Struct, frozen=True):
    """From which line on a hunk stands. `is_sure`: no other line could be meant."""

    line: int
    is_sure: bool


class _Nowhere(Exception):
    pass


def added(hunks: Sequence[Hunk]) -> str:
    """The text of a file that a patch adds."""
    lines = [text for hunk in hunks for _, text in hunk.lines]
    if not lines:
        return ""
    return "\n".join(lines) + ("" if hunks[-1].new_end is False else "\n")


def applied(text: str, hunks: Sequence[Hunk], name: str) -> Applied | Unfitting:
    """`text` (with its own line endings) after the hunks, which come in the file's order."""
    is_closed = text.endswith("\n") or not text
    # every line with an ending, for as long as it takes
    body = Body(text if is_closed else text + Body(text).newline)
    lines = body.text.split("\n")[:-1]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    pieces: list[Piece] = []
    cursor, steps = 0, set[str]()
    for number, hunk in enumerate(hunks, 1):
        try:
            place = _place(lines, hunk, cursor)
        except _Nowhere as nowhere:
            which = f"hunk {number} of {len(hunks)}" if len(hunks) > 1 else "the hunk"
            return Unfitting(f"{name}: {which} {nowhere}; nothing was changed")
        steps.add(place.step)
        for first, last, new in _blocks(hunk, place):
            put = "".join(line + "\n" for line in new)
            pieces.append(Piece(starts[first], starts[last], put))
        cursor = place.at + sum(sign != "+" for sign, _ in hunk.lines)
        if cursor == len(lines) and (hunk.old_end is False or hunk.new_end is False):
            is_closed = hunk.new_end is not False
    result = body.with_pieces(pieces)
    if not is_closed:
        result = result.removesuffix("\n").removesuffix("\r" if body.is_crlf else "")
    return Applied(result, tuple(sorted(steps - {""})))


def _blocks(hunk: Hunk, place: _Place) -> Iterator[tuple[int, int, list[str]]]:
    """The runs of lines that go and come: from which line to which, and what comes. What only stands there is in none."""
    new = iter(place.new)
    first = last = place.at
    put: list[str] = []
    for sign, _ in hunk.lines:
        if sign == "+":
            put.append(next(new))
        elif sign == "-":
            last += 1
        else:
            if put or last > first:
                yield first, last, put
            first = last = last + 1
            put = []
    if put or last > first:
        yield first, last, put


def _place(lines: list[str], hunk: Hunk, cursor: int) -> _Place:
    """Where a hunk stands, from the line `cursor` on. Raises _Nowhere with the rest of a sentence."""
    old = [text for sign, text in hunk.lines if sign != "+"]
    new = [text for sign, text in hunk.lines if sign == "+"]
    after = _after_anchors(lines, hunk, cursor)
    if not old:
        return _Place(_insertion(lines, hunk, after), "", new)
    at_end = hunk.at_end or hunk.old_end is False or hunk.new_end is False
    for step, places in _found(lines, old, new, cursor):
        if at_end:
            places = [one for one in places if one.at + len(old) == len(lines)]
        if places:
            return _one_of(places, hunk, after, step)
    end = " at the end of the file" if at_end else ""
    raise _Nowhere(f"does not fit{end}: read the file again and copy its lines exactly")


def _found(
    lines: list[str], old: list[str], new: list[str], cursor: int
) -> Iterator[tuple[str, list[_Place]]]:
    """The places in each way, the exact one first."""
    if not any(old):
        # empty lines are everywhere: they are a place only where there are no others
        empty = [at for at in range(cursor, len(lines)) if lines[at : at + len(old)] == old]
        yield "", [_Place(at, "", new) for at in empty if len(empty) == 1]
        return
    for step, key in (("", str), ("trailing space", trimmed)):
        yield step, [_Place(at, step, new) for at in alike(lines, old, key, cursor)]
    step = "indentation"
    places = []
    for at in alike(lines, old, bare, cursor):
        both = moved(lines[at : at + len(old)], old, new)
        if both is not None:
            places.append(_Place(at, step, both[1]))
    yield step, places
    step = "typographic marks"
    yield step, [_Place(at, step, new) for at in alike(lines, old, plain_marks, cursor)]


def _one_of(places: list[_Place], hunk: Hunk, after: _After | None, step: str) -> _Place:
    if after is not None:
        places = [one for one in places if one.at >= after.line]
        if not places:
            raise _Nowhere("does not stand after the line that its @@ names")
        if after.is_sure:
            return places[0]
    if len(places) == 1:
        return places[0]
    for one in places:
        if one.at + 1 == hunk.line and not step:
            return one  # its lines and its line number say the same
    named = ", ".join(str(one.at + 1) for one in places[:5])
    raise _Nowhere(f"fits {len(places)} times, at lines {named}: give more lines around it")


def _after_anchors(lines: list[str], hunk: Hunk, cursor: int) -> _After | None:
    """From where on a hunk with anchors may stand; None without any."""
    after = None
    for anchor in hunk.anchors:
        start = cursor if after is None else after.line + 1
        places = list(alike(lines, [anchor], bare, start))
        if not places:
            raise _Nowhere(f"names a line that is not there: @@ {anchor}")
        is_sure = len(places) == 1 if after is None else after.is_sure
        after = _After(places[0], is_sure)
    return after


def _insertion(lines: list[str], hunk: Hunk, after: _After | None) -> int:
    """Where lines go that have none around them."""
    if after is not None and not hunk.at_end:
        if not after.is_sure:
            raise _Nowhere(f"names a line that is there more than once: @@ {hunk.anchors[0]}")
        return after.line + 1
    if hunk.line is None or not lines:
        return len(lines)
    raise _Nowhere("has no lines around what it adds: give some")
