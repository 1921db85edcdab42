"""What files were before a session's tools changed them, kept beside its journal, for `/undo`.

`pre_images.jsonl` has a line for each change, in their order; a content lies once, under its own hash. A call's turn is
in the journal. What is here is on the disk before the change is made.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
from msgspec import Struct

from lembasd.device import private_file
from lembasd.device.damaged import clear_the_way
from lembasd.device.regular import read_regular
from lembasd.protocol.limits import MIB

#: of all contents of a session; over it the oldest changes are forgotten and can be undone no more
MAX_BYTES: Final = 256 * MIB
#: changes of a session that are remembered
MAX_IMAGES: Final = 5000
#: over the bound one of so many changes goes
_SHARE: Final = 10
_INDEX: Final = "pre_images.jsonl"
_CONTENTS: Final = "pre_images"
#: what of a session's directory they are: the list, then what it speaks of
NAMES: Final = (_INDEX, _CONTENTS)
_encoder: Final = msgspec.json.Encoder()


class PreImage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One file before one call. `path` is percent-encoded (names are bytes); see `where`.

    `content` and `mode` are None where there was no file. `after`: the hash of what the call left, None for no file:
    a file that is another by now was changed by somebody since.
    """

    call_id: str
    path: str
    content: str | None = None
    size: int = 0
    mode: int | None = None
    after: str | None = None

    @property
    def where(self) -> Path:
        """The file's absolute path."""
        return Path(os.fsdecode(unquote_to_bytes(self.path)))


def digest_of(content: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(content).hexdigest()


def pre_image(
    call_id: str, path: Path, before: bytes | None, mode: int | None, after: bytes | None
) -> PreImage:
    """The line for a change."""
    return PreImage(
        call_id=call_id,
        path=quote_from_bytes(os.fsencode(path), safe="/ "),
        content=None if before is None else digest_of(before),
        size=0 if before is None else len(before),
        mode=mode,
        after=None if after is None else digest_of(after),
    )


class PreImages:
    """Those of one session, in its directory. Blocks; one caller at a time."""

    def __init__(
        self, directory: Path, *, max_bytes: int = MAX_BYTES, max_images: int = MAX_IMAGES
    ) -> None:
        self._max_bytes = max_bytes
        self._max_images = max_images
        self._index = directory / _INDEX
        self._contents = directory / _CONTENTS
        self._images: list[PreImage] | None = None

    def keep(self, images: Iterable[tuple[PreImage, bytes | None]]) -> None:
        """Have these on the disk. Raises OSError; then what is kept is as it was, but for contents nobody asks for."""
        known = self._known()
        new = []
        for image, content in images:
            if image.content is not None and content is not None:
                path = self._contents / image.content
                if not path.exists():
                    private_file.write(path, content)
            new.append(image)
        self._append(new)
        known += new
        self._forget(known)

    def kept(self) -> list[PreImage]:
        """The changes that can be undone, in their order. Raises OSError."""
        return [*self._known()]

    def content(self, image: PreImage) -> bytes | None:
        """What the file was; None where there was none. Raises OSError, and ValueError when it is damaged."""
        if image.content is None:
            return None
        data = read_regular(self._contents / image.content)
        if digest_of(data) != image.content:
            raise ValueError(f"the kept content of {image.where} is damaged")
        return data

    def _known(self) -> list[PreImage]:
        if self._images is None:
            self._images = [*_read(self._index)]
        return self._images

    def _append(self, images: list[PreImage]) -> None:
        data = b"".join(_encoder.encode(one) + b"\n" for one in images)
        self._index.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._index, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data  # a line that a crash cut off stays alone
            if os.write(handle, data) != len(data):
                os.ftruncate(handle, size)
                raise OSError(28, os.strerror(28), str(self._index))
            os.fsync(handle)
        finally:
            os.close(handle)

    def _forget(self, known: list[PreImage]) -> None:
        """Keep within the bounds."""
        used = _bytes_of(known)
        if used <= self._max_bytes and len(known) <= self._max_images:
            return
        gone: list[PreImage] = []
        # the list is written anew each time, so some go at once
        most = self._max_images - self._max_images // _SHARE
        while len(known) > 1 and (used > self._max_bytes or len(known) > most):
            gone.append(known.pop(0))
            used = _bytes_of(known)
        private_file.write(self._index, b"".join(_encoder.encode(one) + b"\n" for one in known))
        wanted = {one.content for one in known}
        for name in {one.content for one in gone} - wanted - {None}:
            (self._contents / str(name)).unlink(missing_ok=True)


def _bytes_of(images: list[PreImage]) -> int:
    return sum({one.content: one.size for one in images}.values())


def _read(index: Path) -> Iterable[PreImage]:
    try:
        clear_the_way(index)
        lines = read_regular(index).split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=PreImage)
        except (msgspec.MsgspecError, RecursionError):
            continue  # torn by a crash, or nothing
