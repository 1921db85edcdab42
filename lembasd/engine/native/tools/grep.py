"""`grep`: lines by what stands in them."""

import codecs
import os
import re
from pathlib import Path
from typing import Any, Final

from lembasd.engine.native.core.globs import Glob
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.searches import Found, Search, Searches
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome, Unusable
from lembasd.engine.native.tools.places import Places
from lembasd.engine.native.tools.search_program import Request
from lembasd.engine.native.tools.text_file import opened, rest
from lembasd.harness.loader import LOOP

#: of a line, what is shown
MAX_LINE_CHARS: Final = 500
MAX_CONTEXT: Final = 20
#: lines after which the loop has its turn
_LINES_AT_ONCE: Final = 2000
#: of a file that is named, where a NUL makes it a binary one
_HEAD_BYTES: Final = 65_536
#: what ripgrep says of a file that it took for text until then
_BINARY: Final = (
    rb"([^\0]*?): WARNING: stopped searching binary file after match"
    rb' \(found "\\0" byte around offset \d+\)\n'
)
_RECORD: Final = re.compile(_BINARY + rb"|([^\0]+)\0(\d+)([:-])([^\n]*)\n")
_ERROR: Final = re.compile(r"^(?:rg: )?(?:regex )?(?:parse )?error: (.+)$", re.MULTILINE)


#: number of a line, whether it is a match (and not one that stands around one alone), where its text begins and ends
_Line = tuple[int, bool, int, int]


async def grep(searches: Searches, use: Use, args: dict[str, Any]) -> Outcome:
    """Raises Unusable, and TimeoutError when the disk does not answer."""
    try:
        wanted = Glob(args["glob"]) if args.get("glob") else None
    except ValueError as error:
        return Outcome(displayed(str(error)), is_error=True)
    if "\n" in args["pattern"] or not args["pattern"]:
        return Outcome("`pattern` must be an expression for one line", is_error=True)
    return await searches.run(lambda search: _searched(search, use, wanted, args))


def _searched(search: Search, use: Use, wanted: Glob | None, args: dict[str, Any]) -> Outcome:
    places = Places(use)
    if places.file is not None:
        wanted = None  # the one that is named
        if _is_binary(use.target.path, use.target.name):
            raise Unusable(f"{use.target.name} is a binary file")
    files_only = bool(args.get("files_only"))
    request = Request(
        pattern=args["pattern"],
        names=wanted.names if wanted is not None else (),
        file=None if places.file is None else f"./{places.file}",
        literal=bool(args.get("literal")),
        ignore_case=bool(args.get("ignore_case")),
        context=0 if files_only else min(int(args.get("context") or 0), MAX_CONTEXT),
    )
    found = search.run(places.folder, request)
    if found.complaint:
        return Outcome(_complaint(found.complaint), is_error=True)
    return _outcome(places, wanted, found, files_only=files_only)


def _is_binary(path: Path, name: str) -> bool:
    with opened(path, name) as (handle, _):
        head = os.read(handle, _HEAD_BYTES)
    return b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _complaint(text: str) -> str:
    match = _ERROR.search(text)
    reason = displayed(match[1] if match is not None else text.split("\n")[-1])
    return (
        f"`pattern` is no expression that can be searched for ({reason}); "
        "escape what is meant as it stands, or set literal"
    )


def _outcome(places: Places, wanted: Glob | None, found: Found, *, files_only: bool) -> Outcome:
    files, binary = _files_in(found.data)
    for path in [*files]:
        hidden = path in binary or not places.may_show(path)
        if hidden or (wanted is not None and not wanted.matches(path)):
            del files[path]
    note = f"[the search was ended: {found.stopped}; narrow it]" if found.stopped else ""
    if not files:
        return Outcome(note or "no matches", is_error=bool(found.stopped))
    ordered = sorted(files.items())
    text = _counts(places, ordered) if files_only else _listing(places, ordered, found.data)
    return Outcome(f"{text}\n{note}" if note else text)


def _files_in(data: bytes) -> tuple[dict[str, list[_Line]], set[str]]:
    """The lines of each file, in their order; and the files that are binary after all."""
    found: dict[bytes, list[_Line]] = {}
    binary: set[bytes] = set()
    for count, match in enumerate(_RECORD.finditer(data)):
        if count % _LINES_AT_ONCE == _LINES_AT_ONCE - 1:
            rest()
        path, number, mark = match.group(2, 3, 4)
        if path is None:
            binary.add(match[1])
            continue
        line = (int(number), mark == b":", *match.span(5))
        lines = found.get(path)
        if lines is None:
            found[path] = [line]
        else:
            lines.append(line)
    return {_path(path): lines for path, lines in found.items()}, {_path(one) for one in binary}


def _path(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape").removeprefix("./")


def _matches(lines: list[_Line]) -> int:
    return sum(is_match for _, is_match, _, _ in lines)


def _counts(places: Places, files: list[tuple[str, list[_Line]]]) -> str:
    room = LOOP.context.max_lines - 2
    out = [f"{places.shown(path)}: {_matches(lines)}" for path, lines in files[:room]]
    more = [f"[{len(files) - room} more files; narrow it]"] if len(files) > room else []
    return "\n".join([*out, *more])


def _listing(places: Places, files: list[tuple[str, list[_Line]]], data: bytes) -> str:
    """The lines below their file's name, as far as a result has room."""
    out: list[str] = []
    chars = 0
    for index, (path, lines) in enumerate(files):
        for at, line in enumerate(lines):
            new = [places.shown(path)] if at == 0 else []
            new.append(_shown(line, data))
            chars += sum(map(len, new)) + len(new)
            full = len(out) + len(new) > LOOP.context.max_lines - 2
            if out and (full or chars > LOOP.context.max_chars - 200):
                left = [lines[at:], *(one for _, one in files[index + 1 :])]
                return "\n".join([*out, _more(left)])
            out += new
    return "\n".join(out)


def _more(left: list[list[_Line]]) -> str:
    matches, files = sum(map(_matches, left)), len(left)
    narrow = "narrow the pattern, or give a path or a glob"
    return f"[{matches} more matches, in {files} file{'' if files == 1 else 's'}; {narrow}]"


def _shown(line: _Line, data: bytes) -> str:
    number, is_match, start, end = line
    text = data[start:end].removesuffix(b"\r").decode("utf-8", "backslashreplace")
    text = text.replace("\0", "\\0")
    if len(text) > MAX_LINE_CHARS:
        text = text[:MAX_LINE_CHARS] + " [line cut]"
    return f"{number:6}{':' if is_match else '-'} {text}"
