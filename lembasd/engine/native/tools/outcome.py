"""What a tool gives back, and how an operating system's error is said to a model."""

import errno
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.store.records import Image, Seen

NOT_THERE: Final = "No such file or directory"


class ImageContent(Struct, frozen=True):
    """An image for a model that sees, as it is in its file. `mime`: image/png, image/jpeg, image/gif or image/webp."""

    mime: str
    data: bytes


class Outcome(Struct, frozen=True):
    """A tool's result: what the model sees, whether it is an error, the diff a person sees beside it.

    `seen`: the lines of a file that it shows. `note`: what the harness says of the call, behind its output. `image`: what
    a model with eyes is shown, and `images`, once it is kept; `output` says in words that it is there.
    """

    output: str
    is_error: bool = False
    diff: str | None = None
    seen: Seen | None = None
    note: str = ""
    image: ImageContent | None = None
    images: list[Image] = []


class Unusable(Exception):
    """A path cannot be used; the text is one sentence for the model."""


def shown(path: Path, root: Path) -> str:
    """A path as the model knows it: relative to the project where it is inside; bytes that are no text as \\xNN."""
    name = str(path.relative_to(root)) if path == root or root in path.parents else str(path)
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def why(error: OSError, name: str) -> str:
    """An operating system's error as one sentence."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return f"{NOT_THERE}: {name}"
        case errno.EACCES | errno.EPERM:
            return f"{name} may not be opened by this user"
        case errno.EISDIR:
            return f"{name} is a directory, not a file"
        case errno.ELOOP:
            return f"{name} changed into a link while it was opened; try again"
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return f"{name} was not written: the disk is full"
        case errno.EROFS:
            return f"{name} was not written: its disk may only be read"
        case errno.ENAMETOOLONG:
            return f"{name[:80]}… is too long a name"
        case errno.ENXIO:
            return f"{name} is a pipe or socket, not a file"
        case _:
            return f"{name}: {error.strerror or error}"


def kind_of(mode: int) -> str:
    """What stands at a path that is no regular file."""
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
