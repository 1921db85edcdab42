"""The images a session has shown its model: a file each, named by its content, beside the journal."""

import hashlib
from typing import Final

from lembasd.device import private_file
from lembasd.device.paths import Paths
from lembasd.device.regular import read_regular
from lembasd.store.records import Image

FOLDER: Final = "images"
#: of the digest; two images of one session that share it are one
_NAME_CHARS: Final = 32


def keep(paths: Paths, session_id: str, mime: str, content: bytes) -> Image:
    """Store an image. Blocks. Raises OSError."""
    name = hashlib.sha256(content).hexdigest()[:_NAME_CHARS]
    path = paths.session(session_id) / FOLDER / name
    if not path.exists():
        private_file.write(path, content)
    return Image(mime, name)


def load(paths: Paths, session_id: str, name: str) -> bytes | None:
    """An image's content; None when it is not there. Blocks."""
    try:
        return read_regular(paths.session(session_id) / FOLDER / name)
    except OSError:
        return None
