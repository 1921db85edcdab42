"""The paths that a line spells out somewhere, whatever then becomes of them: in a loop, an array, a here-string, a text.

What a command is given is judged word by word. This is the look that a person takes: a line in which a path of the
service stands has to do with it, though nobody sees how.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from lembasd.engine.native.core.command_paths import MAX_PATH_CHARS, MAX_PATHS, Named
from lembasd.engine.native.core.paths import lexical

#: quotes; with a space between them stands a text, which says something of a path rather than names it
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_SPACE: Final = re.compile(r"\s")
#: what a value stands for in a word; not nested: what is left of it makes no path of ours
_VALUE: Final = re.compile(r"\$\([^()\s]*(?:\s[^()]*)?\)|\$\{[^{}]*\}|\$[A-Za-z_0-9@*?]\w*|`[^`]*`")
_HOME: Final = re.compile(r"(?:\$HOME|\$\{HOME\}|(?<![\w.~/-])~)(?=/)")
#: what stands between what cannot stand in a path unquoted
_PART: Final = re.compile(r"[^\s'\"`;|&<>()=:,{}$@]+")
#: the directory of another process, or of the shell's own, that nobody sees from here
_PROCESS: Final = re.compile(r"/proc/[^/\s]+/(?:task/[^/\s]+/)?(?:cwd|root)/")


def of_line(text: str, home: str, root: str) -> Iterator[Named]:
    """The paths spelled out in a line; each value in one is a part of it that may be anything."""
    text = _QUOTED.sub(lambda one: " " if _SPACE.search(one.group()) else one.group(), text)
    text = _VALUE.sub("*", _HOME.sub(lambda _: home, text))
    found = (one.group() for one in _PART.finditer(text))
    paths = (one for one in found if "/" in one and len(one) <= MAX_PATH_CHARS)
    for path in islice(paths, MAX_PATHS):
        path = lexical(path if path.startswith("/") else f"{root}/{path}")
        at = min((path.index(one) for one in "*?[" if one in path), default=-1)
        yield Named(path, at)


def leads_by_process(text: str) -> bool:
    """Whether a path in a line goes by where a process is."""
    return _PROCESS.search(text) is not None
