"""`grep`: lines by what stands in them."""

import re
from itertools import groupby
from typing import Any, Final

from msgspec import Struct

from lembasd.engine.native.core.globs import Glob
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.searches import Found, Searches
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome, Unusable
from lembasd.engine.native.tools.places import Places
from lembasd.engine.native.tools.search_program import Request
from lembasd.engine.native.tools.text_file import rest
from lembasd.harness.loader import LOOP
from lembasd.store.apart import run_apart

#: of a line, what is shown
MAX_LINE_CHARS: Final = 500
MAX_CONTEXT: Final = 20
#: lines after which the loop has its turn
_LINES_AT_ONCE: Final = 2000
_BINARY: Final = (
    rb"(?P<binary>[^\0]*?): (?:WARNING: stopped searching binary file after match|binary file matches)"
    rb' \(found "\\0" byte around offset \d+\)\n'
)
_RECORD: Final = re.compile(
    _BINARY + rb"|(?P<path>[^\0]+)\0(?P<number>\d+)(?P<mark>[:-])(?P<text>[^\n]*)\n"
)
_ERROR: Final = re.compile(r"^(?:rg: )?(?:regex )?(?:parse )?error: (.+)$", re.MULTILINE)


class Line(Struct, frozen=True):
    """A line that is shown. `is_match`: not one that stands around a match alone."""

    path: str
    number: int
    text: str
    is_match: bool


async def grep(searches: Searches, use: Use, args: dict[str, Any]) -> Outcome:
    """Raises Unusable, and TimeoutError when the disk does not answer."""
    try:
        wanted = Glob(args["glob"]) if args.get("glob") else None
    except ValueError as error:
        return Outcome(displayed(str(error)), is_error=True)
    if "\n" in args["pattern"] or not args["pattern"]:
        return Outcome("`pattern` must be an expression for one line", is_error=True)
    places = await run_apart(lambda: Places(use))
    files_only = bool(args.get("files_only"))
    request = Request(
        pattern=args["pattern"],
        names=wanted.names if wanted is not None and places.file is None else (),
        file=None if places.file is None else f"./{places.file}",
        literal=bool(args.get("literal")),
        ignore_case=bool(args.get("ignore_case")),
        context=0 if files_only else min(int(args.get("context") or 0), MAX_CONTEXT),
    )
    found = await searches.run(places.folder, request)
    if found.complaint:
        return Outcome(_complaint(found.complaint), is_error=True)
    if places.file is not None:
        wanted = None
    return await run_apart(lambda: _outcome(places, wanted, found, files_only=files_only))


def _complaint(text: str) -> str:
    match = _ERROR.search(text)
    reason = displayed(match[1] if match is not None else text.split("\n")[-1])
    return (
        f"`pattern` is no expression that can be searched for ({reason}); "
        "escape what is meant as it stands, or set literal"
    )


def _outcome(places: Places, wanted: Glob | None, found: Found, *, files_only: bool) -> Outcome:
    lines, binary = _lines(found.data)
    if places.file is not None and binary:
        raise Unusable(f"{places.shown(places.file)} is a binary file")
    shown = [
        one
        for one in lines
        if one.path not in binary
        and (wanted is None or wanted.matches(one.path))
        and places.may_show(one.path)
    ]
    shown.sort(key=lambda one: (one.path, one.number))
    note = f"[the search was ended: {found.stopped}; narrow it]" if found.stopped else ""
    if not shown:
        return Outcome(note or "no matches", is_error=bool(found.stopped))
    text = _files(places, shown) if files_only else _listing(places, shown)
    return Outcome(f"{text}\n{note}" if note else text)


def _lines(data: bytes) -> tuple[list[Line], set[str]]:
    lines: list[Line] = []
    binary: set[str] = set()
    for count, match in enumerate(_RECORD.finditer(data)):
        if count % _LINES_AT_ONCE == _LINES_AT_ONCE - 1:
            rest()
        path = match["path"] or match["binary"]
        name = path.decode("utf-8", "surrogateescape").removeprefix("./")
        if match["binary"] is not None:
            binary.add(name)
            continue
        text = match["text"].removesuffix(b"\r").decode("utf-8", "backslashreplace")
        lines.append(Line(name, int(match["number"]), text, match["mark"] == b":"))
    return lines, binary


def _files(places: Places, lines: list[Line]) -> str:
    counts = [
        f"{places.shown(path)}: {sum(one.is_match for one in group)}"
        for path, group in groupby(lines, key=lambda one: one.path)
    ]
    room = LOOP.context.max_lines - 2
    more = [f"[{len(counts) - room} more files; narrow it]"] if len(counts) > room else []
    return "\n".join([*counts[:room], *more])


def _listing(places: Places, lines: list[Line]) -> str:
    """The lines below their file's name, as far as a result has room."""
    out: list[str] = []
    chars = 0
    path = ""
    for shown, one in enumerate(lines):
        new = [] if one.path == path else [places.shown(one.path)]
        new.append(_shown(one))
        chars += sum(map(len, new)) + len(new)
        full = len(out) + len(new) > LOOP.context.max_lines - 2
        if out and (full or chars > LOOP.context.max_chars - 200):
            left = lines[shown:]
            matches = sum(one.is_match for one in left)
            files = len({one.path for one in left})
            out.append(
                f"[{matches} more matches, in {files} files; narrow the pattern, or give a path or a glob]"
            )
            break
        out += new
        path = one.path
    return "\n".join(out)


def _shown(line: Line) -> str:
    text = line.text
    if len(text) > MAX_LINE_CHARS:
        text = text[:MAX_LINE_CHARS] + " [line cut]"
    return f"{line.number:6}{':' if line.is_match else '-'} {text}"
