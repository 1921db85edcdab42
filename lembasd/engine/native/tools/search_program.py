"""`python -m … REQUEST SECONDS`: what ripgrep does for us, for where there is none; writes what ripgrep would write.

A program of its own, for an expression may run for ever, and can be ended only with its process. After SECONDS the
system ends it, should whoever started it be gone.
"""

import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.engine.native.core.wildcard import POSIX_CLASSES
from lembasd.engine.native.tools.walk import sight_of, walk

#: a larger file is no text
_MAX_BYTES: Final = 256 * 1024 * 1024
#: of a line, what is written: more than is ever shown
_MAX_LINE_BYTES: Final = 4000
_POSIX: Final = re.compile(r"\[:(\w+):\]")


class Request(Struct, frozen=True):
    """`pattern`: None for the files alone. `names`: globs of names, none for every file. `file`: one file, none of its folder's."""

    pattern: str | None = None
    names: tuple[str, ...] = ()
    file: str | None = None
    literal: bool = False
    ignore_case: bool = False
    context: int = 0


def main(request: Request, out: int) -> int:
    """In the folder that is searched. 0: something was found; 1: nothing; 2: what is asked for cannot be."""
    if request.pattern is None:
        return _write(
            out, (path.encode("utf-8", "surrogateescape") + b"\0" for path in _files(request))
        )
    try:
        regex = expression(request)
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return _write(out, _lines(request, regex))


def expression(request: Request) -> re.Pattern[str]:
    """The expression as Python writes it. Raises re.error."""
    text = request.pattern or ""
    if request.literal:
        text = re.escape(text)
    else:
        text = re.sub(r"(?<!\\)\(\?<(?=[A-Za-z_])", "(?P<", text).replace(r"\z", r"\Z")
        text = _POSIX.sub(lambda match: POSIX_CLASSES.get(match[1], match[0]), text)
    return re.compile(text, re.IGNORECASE if request.ignore_case else 0)


def _files(request: Request) -> Iterator[str]:
    if request.file is not None:
        yield request.file
        return
    folder = Path.cwd()
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    for path in walk(handle, folder, sight_of(folder)):
        name = path.rpartition("/")[2]
        if not request.names or any(fnmatchcase(name, one) for one in request.names):
            yield f"./{path}"


def _lines(request: Request, regex: re.Pattern[str]) -> Iterator[bytes]:
    for path in _files(request):
        lines = _text_lines(path, is_named=request.file is not None)
        hits = [n for n, line in enumerate(lines) if regex.search(line.removesuffix("\r"))]
        prefix = path.encode("utf-8", "surrogateescape")
        for number, mark in _around(hits, request.context, len(lines)):
            line = lines[number].encode("utf-8", "surrogateescape")[:_MAX_LINE_BYTES]
            yield b"%s\0%d%s%s\n" % (prefix, number + 1, mark, line)


def _around(hits: list[int], context: int, total: int) -> Iterable[tuple[int, bytes]]:
    if not context:
        return [(number, b":") for number in hits]
    marks = {
        near: b"-"
        for number in hits
        for near in range(max(0, number - context), min(total, number + context + 1))
    }
    return sorted((marks | dict.fromkeys(hits, b":")).items())


def _text_lines(path: str, *, is_named: bool) -> list[str]:
    """The lines of a text file; none of a binary one, unless it is named."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if os.fstat(handle).st_size > _MAX_BYTES:
                return []
            data = file.read()
    except OSError:
        return []
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data and not is_named:
        return []
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _write(out: int, pieces: Iterator[bytes]) -> int:
    found = False
    with os.fdopen(os.dup(out), "wb") as file:
        for piece in pieces:
            file.write(piece)
            found = True
    return 0 if found else 1


if __name__ == "__main__":
    signal.alarm(int(sys.argv[2]))
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Request), 1))
