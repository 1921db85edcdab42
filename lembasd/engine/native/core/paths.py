"""Paths by their words alone."""

from functools import lru_cache
from typing import Final

#: paths kept ready, for a line names the same ones again and again; of more the oldest are made again
_PATHS: Final = 1024


@lru_cache(maxsize=_PATHS)
def parts(path: str) -> tuple[str, ...]:
    """The parts of an absolute path without `.`, `..` and doubled slashes."""
    found: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return tuple(found)


def lexical(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes; links are not followed."""
    return "/" + "/".join(parts(path))
