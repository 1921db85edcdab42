"""`glob`: files by their names."""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

from lembasd.engine.native.core.globs import Glob
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.searches import Search, Searches
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome, Unusable
from lembasd.engine.native.tools.places import Places
from lembasd.engine.native.tools.search_program import Request
from lembasd.engine.native.tools.text_file import PIECE_BYTES
from lembasd.harness.loader import LOOP


async def glob(searches: Searches, use: Use, args: dict[str, Any]) -> Outcome:
    """Raises Unusable, and TimeoutError when the disk does not answer."""
    try:
        wanted = Glob(args["pattern"])
    except ValueError as error:
        return Outcome(displayed(str(error)), is_error=True)
    return await searches.run(lambda search: _found(search, use, wanted))


def _found(search: Search, use: Use, wanted: Glob) -> Outcome:
    places = Places(use)
    if places.file is not None:
        raise Unusable(f"{use.target.name} is a file, not a directory")
    found = search.run(places.folder, Request(names=wanted.names))
    return _outcome(places, wanted, found.data, found.stopped)


def _outcome(places: Places, wanted: Glob, data: bytes, stopped: str) -> Outcome:
    matching = [
        path for paths in _paths(data) for path in wanted.among(paths) if places.may_show(path)
    ]
    note = f"[the search was ended: {stopped}; look in a folder of it]" if stopped else ""
    if not matching:
        return Outcome(note or "no files match", is_error=bool(stopped))
    out: list[str] = []
    chars = 0
    # never a sort of all: that holds the loop for as long as it takes
    for path in nsmallest(LOOP.context.max_lines, matching):
        text = places.shown(path)
        chars += len(text) + 1
        if out and (chars > LOOP.context.max_chars - 200 or len(out) >= LOOP.context.max_lines - 2):
            out.append(f"[{len(matching) - len(out)} more; give a narrower pattern, or a path]")
            break
        out.append(text)
    return Outcome("\n".join([*out, *([note] if note else [])]))


def _paths(data: bytes) -> Iterator[list[str]]:
    """The paths, of which each is written as ./path and a NUL: so many at once as leave the loop its turn."""
    at, end = 0, data.rfind(b"\0")  # what stands behind the last NUL was cut off
    while at < end:
        upto = data.find(b"\0", min(at + PIECE_BYTES, end))
        yield data[at + 2 : upto].decode("utf-8", "surrogateescape").split("\0./")
        at = upto + 1
