"""What a model wrote as a call's arguments, as values: parsed, narrowly repaired, or known to be cut off.

A repair changes spelling and nothing else: characters that JSON wants escaped, and a comma too many. Text that was cut
off is never completed, for nobody knows what was to come: half a path is another path.
"""

import json
import math
import re
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from lembasd.engine.native.core import surrogates

#: longer arguments are no call but a model that does not stop
MAX_ARGUMENTS_CHARS: Final = 1_000_000
#: equal repeats collapse, different values are calls of their own; more than so many is noise
MAX_VALUES: Final = 16

_object: Final = msgspec.json.Decoder(dict[str, Any])


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_lenient: Final = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)
#: a string of JSON, whatever stands in it
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
#: a backslash with what follows; only these may follow one
_ESCAPE: Final = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt]|.|$)', re.DOTALL)
_SIMPLE: Final = frozenset('"\\/bfnrt')
#: escapes that may as well be a backslash and a letter of a path
_AMBIGUOUS: Final = frozenset("bfnrtu")
_TRAILING_COMMA: Final = re.compile(r",(\s*[}\]])")

Problem = Literal["cut", "wrong"]


class Arguments(Struct, frozen=True):
    """`values`: one object for each call that the text holds, none with a `problem`. `exact`: it parsed as it stood."""

    values: tuple[dict[str, Any], ...] = ()
    problem: Problem | None = None
    exact: bool = True


def read(text: str) -> Arguments:
    """Read a call's arguments; an empty text is a call without arguments."""
    if not text.strip() or text.strip() == "null":
        return Arguments(({},))
    if len(text) > MAX_ARGUMENTS_CHARS:
        return Arguments(problem="wrong")
    try:
        return Arguments((_object.decode(text),))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        pass
    values = _several(text)
    if values is None and not _is_cut(text):
        respelled = _respelled(text)
        values = _several(respelled) if respelled is not None else None
    if values is not None and surrogates.can_be_sent(values):
        return Arguments(values, exact=False)
    return Arguments(problem="cut" if _is_cut(text) else "wrong")


def _several(text: str) -> tuple[dict[str, Any], ...] | None:
    """The different objects that stand one after the other in the text; None when anything else stands there."""
    found: list[dict[str, Any]] = []
    at, end = 0, len(text)
    try:
        while at < end:
            value, at = _lenient.raw_decode(text, _after_space(text, at))
            if isinstance(value, str) and at == end and not found:
                # the object was written as a text once more
                return _several(value)
            if not isinstance(value, dict) or len(found) >= MAX_VALUES:
                return None
            if value not in found:
                found.append(value)
            at = _after_space(text, at)
        msgspec.json.encode(found)  # half a character is none, and cannot be written anywhere
    except (ValueError, RecursionError):
        return None
    return tuple(found) if found else None


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _respelled(text: str) -> str | None:
    """The same with backslashes that escape nothing doubled, and without commas before a closing bracket.

    None where a string has backslashes of both kinds: C:\\proj\\new is no path with a line break in it.
    """
    out: list[str] = []
    at = 0
    for match in _STRING.finditer(text):
        out.append(_TRAILING_COMMA.sub(r"\1", text[at : match.start()]))
        kinds = {one[1][:1] for one in _ESCAPE.finditer(match[0]) if _is_escape(one[1])}
        if any(not _is_escape(one[1]) for one in _ESCAPE.finditer(match[0])):
            if kinds & _AMBIGUOUS:
                return None
            out.append(_ESCAPE.sub(_escape, match[0]))
        else:
            out.append(match[0])
        at = match.end()
    out.append(_TRAILING_COMMA.sub(r"\1", text[at:]))
    return "".join(out)


def _is_escape(what: str) -> bool:
    """Whether what follows a backslash makes an escape of JSON."""
    return what in _SIMPLE or (len(what) == 5 and what[0] == "u")


def _escape(match: re.Match[str]) -> str:
    return match[0] if _is_escape(match[1]) else "\\\\" + match[1]


def _is_cut(text: str) -> bool:
    """Whether brackets or a string are still open at the end."""
    depth = 0
    rest = _STRING.sub("", text)
    if '"' in rest:
        return True
    for character in rest:
        if character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
    return depth > 0
