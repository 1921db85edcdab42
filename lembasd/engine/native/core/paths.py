"""Paths by their words alone."""


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
