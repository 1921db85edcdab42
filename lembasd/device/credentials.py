"""credentials.json: the one login of this device. Mode 0600; a token belongs to its server's origin."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from lembasd.device import private_file
from lembasd.protocol.control import Account
from lembasd.protocol.errors import ConfigError

#: held for the moment of a login's or logout's writing
_LOCK: Final = "credentials.lock"


class Credentials(Struct, frozen=True):
    """A login: the server's base URL, the device token, and what the server said of itself then."""

    server: str
    token: str
    connection: str | None = None
    instance_name: str = ""
    default_model: str | None = None
    scope: str = ""

    def __repr__(self) -> str:
        return f"Credentials(server={self.server!r}, connection={self.connection!r}, token=…)"

    def account(self) -> Account:
        """What a worker is told."""
        return Account(
            base_url=self.server,
            token=self.token,
            connection=self.connection,
            instance_name=self.instance_name,
            default_model=self.default_model,
        )


def origin(url: str) -> str:
    """Scheme, host and port of a URL, in one form: what a token is bound to."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def same_origin(one: str, other: str) -> bool:
    """Whether two server addresses are one origin; https is meant where none is written. False for what is no URL."""
    try:
        return origin(_with_scheme(one)) == origin(_with_scheme(other))
    except ValueError:
        return False


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"https://{url}"


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """While this is entered nobody else logs in or out: config.yaml and the login change together. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_name(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def load(path: Path) -> Credentials | None:
    """The login, None when there is none. Raises ConfigError for a file that others can read or that is broken."""
    raw = private_file.read(path)
    if raw is None:
        return None
    try:
        login = msgspec.json.decode(raw, type=Credentials)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # the cause is not chained: it could quote what stands in the file
        raise ConfigError(str(path), "cannot be read; log in again with `lembas login`") from None
    if not is_token(login.token):
        # what writes headers would quote it when it complains
        raise ConfigError(str(path), "holds no token; log in again with `lembas login`")
    return login


def is_token(text: str) -> bool:
    """Whether it can be a token at all: one word of what a header may hold."""
    return bool(text) and all("!" <= character <= "~" for character in text)


def store(path: Path, credentials: Credentials) -> None:
    """Write the login, whole or not at all. Raises OSError."""
    private_file.write(path, msgspec.json.format(msgspec.json.encode(credentials)))


def remove(path: Path) -> bool:
    """Forget the login; whether there was one. Raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
