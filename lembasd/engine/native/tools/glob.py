"""`glob`: files by their names."""

from typing import Any

from lembasd.engine.native.core.globs import Glob
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.searches import Searches
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome, Unusable
from lembasd.engine.native.tools.places import Places
from lembasd.engine.native.tools.search_program import Request
from lembasd.harness.loader import LOOP
from lembasd.store.apart import run_apart


async def glob(searches: Searches, use: Use, args: dict[str, Any]) -> Outcome:
    """Raises Unusable, and TimeoutError when the disk does not answer."""
    try:
        wanted = Glob(args["pattern"])
    except ValueError as error:
        return Outcome(displayed(str(error)), is_error=True)
    places = await run_apart(lambda: Places(use))
    if places.file is not None:
        raise Unusable(f"{use.target.name} is a file, not a directory")
    found = await searches.run(places.folder, Request(names=wanted.names))
    return await run_apart(lambda: _outcome(places, wanted, found.data, found.stopped))


def _outcome(places: Places, wanted: Glob, data: bytes, stopped: str) -> Outcome:
    texts = data.decode("utf-8", "surrogateescape").split("\0")
    if stopped:
        texts.pop()  # cut off, maybe
    paths = [text[2:] for text in texts if text]
    matching = sorted(path for path in paths if wanted.matches(path) and places.may_show(path))
    note = f"[the search was ended: {stopped}; look in a folder of it]" if stopped else ""
    if not matching:
        return Outcome(note or "no files match", is_error=bool(stopped))
    out: list[str] = []
    chars = 0
    for path in matching:
        text = places.shown(path)
        chars += len(text) + 1
        if out and (chars > LOOP.context.max_chars - 200 or len(out) >= LOOP.context.max_lines - 2):
            out.append(f"[{len(matching) - len(out)} more; give a narrower pattern, or a path]")
            break
        out.append(text)
    return Outcome("\n".join([*out, *([note] if note else [])]))
