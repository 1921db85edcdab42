"""state/models.json: the list of models that the instance gave last, for the sessions that begin within a minute of it.

Each session has a process of its own, which else would ask for the same list, and load what it asks with. The list is
some login's: another server or token finds none. A file that is lost or cannot be read costs one request.
"""

import hashlib
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.device import private_file
from lembasd.device.damaged import read_record
from lembasd.device.paths import Paths
from lembasd.protocol.control import Account

#: after it the instance is asked again: what it serves may have changed
KEPT_S: Final = 60.0
_NAME: Final = "models.json"


class _Kept(Struct, frozen=True):
    """`login`: whose list it is, of which no token can be told; `at`: Unix seconds of its answer."""

    login: str
    at: float
    answer: msgspec.Raw


_decoder: Final = msgspec.json.Decoder(_Kept)


def kept(paths: Paths, account: Account, now: float) -> bytes | None:
    """The instance's answer (JSON) when it is fresh, else None; `now` is Unix seconds. Blocks, never raises."""
    found = read_record(paths.state / _NAME, _decoder.decode)
    if found is None:
        return None
    # one from the future was written by a clock that was wrong
    fresh = now - KEPT_S < found.at <= now
    return bytes(found.answer) if fresh and found.login == _login(account) else None


def keep(paths: Paths, account: Account, answer: bytes, now: float) -> None:
    """Keep an answer, which is JSON, in the place of the last. Blocks. Raises OSError."""
    entry = _Kept(_login(account), now, msgspec.Raw(answer))
    private_file.write(paths.state / _NAME, msgspec.json.encode(entry))


def _login(account: Account) -> str:
    named = f"{account.base_url.rstrip('/')} {account.token}"
    return hashlib.blake2b(named.encode(), digest_size=16, person=b"lembasd models").hexdigest()
