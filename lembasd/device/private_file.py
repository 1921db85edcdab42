"""Files that are the person's alone: written whole or not at all, and refused when others can read them."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lembasd.device.damaged import PASSING
from lembasd.protocol.errors import CannotReadNow, ConfigError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have an OSError of what is done for `path` name that, and no temporary file beside it."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def write(path: Path, content: bytes) -> None:
    """Put `content` in the place of `path`, mode 0600, synced before it is renamed. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with naming(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def read(path: Path) -> bytes | None:
    """The content, None when there is no such file.

    Raises ConfigError when it is not a file of this user's that nobody else can read; CannotReadNow when the system
    has no descriptor or memory for it, or its disk has failed: what it held a moment ago may be there still.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in PASSING:
            raise CannotReadNow(str(path), f"cannot be read now ({error.strerror})") from error
        raise ConfigError(
            str(path), f"cannot be read ({error.strerror}); check its rights"
        ) from error


def _read(path: Path) -> bytes:
    """Raises OSError, ConfigError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)  # Python opens no directory, not even to close it
        raise ConfigError(str(path), "is no file; remove it")
    with os.fdopen(handle, "rb") as file:
        if about.st_uid != os.getuid():
            raise ConfigError(str(path), "belongs to another user; remove it")
        if about.st_mode & 0o077:
            raise ConfigError(str(path), f"can be read by others; run `chmod 600 {path}`")
        return file.read()
