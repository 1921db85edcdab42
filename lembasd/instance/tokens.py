"""The devices' tokens: given out once, kept as hashes."""

import hashlib
import secrets
import threading
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.device import private_file
from lembasd.protocol.errors import ConfigError

#: tokens kept; a new login then ends the oldest one's
MAX_TOKENS: Final = 64
_TOKEN_BYTES: Final = 32


class Device(Struct, frozen=True):
    """Who a token belongs to. `id` is the device's for this instance."""

    id: str
    scope: str
    token_sha256: str

    def may(self, scope: str) -> bool:
        return scope in self.scope.split()


class Tokens:
    """All tokens that are valid. Kept in `file`, or in memory alone without one."""

    def __init__(self, file: Path | None) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._file = file
        self._devices: dict[str, Device] = {}
        self._issuing = threading.Lock()
        text = private_file.read(file) if file is not None else None
        if file is not None and text is not None:
            try:
                known = msgspec.json.decode(text, type=list[Device])
            except msgspec.MsgspecError as error:
                raise ConfigError(str(file), "is damaged; remove it and log in again") from error
            self._devices = {device.token_sha256: device for device in known}

    def issue(self, scope: str) -> str:
        """A new token of a new device, from any thread. Stored before it is returned; raises OSError when that fails."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        device = Device(f"dev_{secrets.token_hex(8)}", scope, _hash(token))
        with self._issuing:
            devices = {**self._devices, device.token_sha256: device}
            while len(devices) > MAX_TOKENS:
                del devices[next(iter(devices))]
            if self._file is not None:
                private_file.write(self._file, msgspec.json.encode(list(devices.values())))
            self._devices = devices
        return token

    def find(self, token: str) -> Device | None:
        """Whose token this is. The look-up is by hash, so its time says nothing about the token."""
        return self._devices.get(_hash(token))

    def all(self) -> list[Device]:
        return list(self._devices.values())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
