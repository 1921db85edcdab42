"""Wildcards in paths as regular expressions that cannot run away: `*`, `?`, `[…]`, and `**` between slashes.

Each star but the last takes the first place that fits and never comes back to it, which loses nothing for such
patterns: what is matched costs pattern times name, whoever wrote the pattern.
"""

import re
from typing import Final

#: what the classes of POSIX hold, for a class of an expression
POSIX_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r"\ \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\ \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


def path_regex(segments: list[str]) -> str:
    """The expression for a path of these segments. Raises ValueError for a pattern that can match nothing."""
    groups: list[list[str]] = [[]]
    for one in segments:
        if one == "**":
            groups.append([])
        else:
            groups[-1].append(segment_regex(one))
    first, last = groups[0], groups[-1]
    if len(groups) == 1:
        return "/".join(first)
    # between two `**` the first place that fits is as good as any later one
    middle = "".join(f"(?>(?:[^/]+/)*?{'/'.join(one)}/)" for one in groups[1:-1] if one)
    end = f"(?:[^/]+/)*{'/'.join(last)}" if last else "(?s:.+)"
    return "".join(f"{one}/" for one in first) + middle + end


def segment_regex(pattern: str) -> str:
    """The expression for one name. Raises ValueError: a class without its end, a backslash before nothing."""
    pieces = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "[":
            text, at = _class(pattern, at)
            pieces[-1] += text
        elif char == "\\":
            if at == len(pattern):
                raise ValueError("a backslash at the end stands for nothing")
            pieces[-1] += re.escape(pattern[at])
            at += 1
        else:
            pieces[-1] += re.escape(char)
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{one})" for one in pieces[1:-1])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _class(pattern: str, at: int) -> tuple[str, int]:
    """The class whose `[` stands before `at`, and where it ends."""
    negated = pattern[at : at + 1] in ("!", "^") and at < len(pattern)
    at += negated
    members = ""
    is_first = True
    while True:
        if at >= len(pattern):
            raise ValueError("a [ without its ]")
        if pattern[at] == "]" and not is_first:
            break
        is_first = False
        if pattern.startswith("[:", at) and (end := pattern.find(":]", at)) > 0:
            name = pattern[at + 2 : end]
            if name not in POSIX_CLASSES:
                raise ValueError(f"there is no class [:{name}:]")
            members += POSIX_CLASSES[name]
            at = end + 2
            continue
        low, at = _member(pattern, at)
        if pattern.startswith("-", at) and pattern[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(pattern, at + 1)
            if low <= high:
                members += f"{_escaped(low)}-{_escaped(high)}"
        else:
            members += _escaped(low)
    if negated:
        return f"(?!/)[^{members}]" if members else "[^/]", at + 1
    return f"(?!/)[{members}]" if members else "(?!)", at + 1


def _member(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\":
        at += 1
        if at == len(pattern):
            raise ValueError("a [ without its ]")
    return pattern[at], at + 1


def _escaped(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char
