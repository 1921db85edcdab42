"""`grep`: lines by what stands in them."""

import codecs
import os
import re
from heapq import nsmallest
from itertools import islice
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
#: blocks after which the loop has its turn
_BLOCKS_AT_ONCE: Final = 2000
#: of a file that is named, where a NUL makes it a binary one
_HEAD_BYTES: Final = 65_536
_WARNS: Final = b": WARNING: stopped searching binary file after match"
#: what ripgrep says of a file that it took for text until then
_BINARY: Final = re.compile(
    rb"(.*?)" + _WARNS + rb' \(found "\\0" byte around offset \d+\)\n',
    re.DOTALL,
)
#: lines of one file, each with its path before it but the first; as many as leave the loop its turn
_BLOCK: Final = re.compile(rb"([^\0]++)\0(\d++[:-][^\n]*+\n(?:\1\0\d++[:-][^\n]*+\n){0,99}+)")
_DIGITS: Final = b"0123456789"
_ERROR: Final = re.compile(r"^(?:rg: )?(?:regex )?(?:parse )?error: (.+)$", re.MULTILINE)


#: by each file's path its lines, as they were written: each but the first with the path before it
_Hits = dict[bytes, bytearray]


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
    return _outcome(places, wanted, found, request.context, files_only=files_only)


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


def _outcome(
    places: Places, wanted: Glob | None, found: Found, context: int, *, files_only: bool
) -> Outcome:
    hits = _files_in(found.data)
    if wanted is not None or places.hides:
        hits = {path: hits[path] for path in hits if _may_show(places, wanted, _path(path))}
    note = f"[the search was ended: {found.stopped}; narrow it]" if found.stopped else ""
    if not hits:
        return Outcome(note or "no matches", is_error=bool(found.stopped))
    listed = _counts if files_only else _listing
    text = listed(places, hits, context)
    return Outcome(f"{text}\n{note}" if note else text)


def _may_show(places: Places, wanted: Glob | None, path: str) -> bool:
    return (wanted is None or wanted.matches(path)) and places.may_show(path)


def _files_in(data: bytes) -> _Hits:
    """The lines of each file; one that is binary after all has none."""
    found: _Hits = {}
    binary: set[bytes] = set()
    # behind the last line there may be warnings, or a part of a line
    end = data.find(b"\n", data.rfind(b"\0")) + 1 or len(data)
    matches = _BLOCK.finditer(data, 0, end)
    while blocks := [one.groups() for one in islice(matches, _BLOCKS_AT_ONCE)]:
        for path, block in blocks:
            if _WARNS in path:
                path = _past_warnings(path, binary)
            if path not in found:
                found[path] = bytearray(block)
            else:
                found[path] += b"%s\0%s" % (path, block)
        if len(blocks) == _BLOCKS_AT_ONCE:
            rest()
    _past_warnings(data[end:], binary)
    for path in binary:
        found.pop(path, None)
    return found


def _past_warnings(text: bytes, binary: set[bytes]) -> bytes:
    """What stands behind the warnings."""
    at = 0
    while match := _BINARY.match(text, at):
        binary.add(match[1])
        at = match.end()
    return text[at:]


def _matches(path: bytes, lines: bytearray, context: int) -> int:
    """How many of the lines are none that stand around one alone."""
    between = b"\n%s\0" % path
    if not context:
        return lines.count(between) + 1
    return sum(one.lstrip(_DIGITS).startswith(b":") for one in lines.split(between))


def _path(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape").removeprefix("./")


def _counts(places: Places, hits: _Hits, context: int) -> str:
    # never a sort of all: that holds the loop for as long as it takes
    paths = nsmallest(LOOP.context.max_lines - 2, hits)
    out = [f"{places.shown(_path(one))}: {_matches(one, hits[one], context)}" for one in paths]
    left = len(hits) - len(paths)
    more = [f"[{left} more files; narrow it]"] if left else []
    return "\n".join([*out, *more])


def _listing(places: Places, hits: _Hits, context: int) -> str:
    """The lines below their file's name, as far as a result has room."""
    out: list[str] = []
    chars = shown = 0
    most = LOOP.context.max_lines
    for index, path in enumerate(nsmallest(most, hits)):
        lines = hits[path].removesuffix(b"\n").split(b"\n%s\0" % path, most)
        for at, line in enumerate(lines):
            new = [places.shown(_path(path))] if at == 0 else []
            is_match, text = _shown(line)
            new.append(text)
            chars += sum(map(len, new)) + len(new)
            full = len(out) + len(new) > most - 2
            if out and (full or chars > LOOP.context.max_chars - 200):
                total = sum(_matches(one, hits[one], context) for one in hits)
                return "\n".join([*out, _more(total - shown, len(hits) - index)])
            out += new
            shown += is_match
    return "\n".join(out)


def _more(matches: int, files: int) -> str:
    narrow = "narrow the pattern, or give a path or a glob"
    return f"[{matches} more matches, in {files} file{'' if files == 1 else 's'}; {narrow}]"


def _shown(line: bytearray) -> tuple[bool, str]:
    """Whether it is a match, and the line."""
    at = len(line) - len(line.lstrip(_DIGITS))
    number, mark, raw = int(line[:at]), line[at : at + 1], line[at + 1 :]
    text = raw.removesuffix(b"\r").decode("utf-8", "backslashreplace").replace("\0", "\\0")
    if len(text) > MAX_LINE_CHARS:
        text = text[:MAX_LINE_CHARS] + " [line cut]"
    return mark == b":", f"{number:6}{mark.decode()} {text}"
