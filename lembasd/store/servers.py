"""state/servers.json: what servers of models have refused, so that a new session need not ask to be refused again.

Kept by server and model, for a time: a server may take tomorrow what it does not take today. A file that is lost or
cannot be read costs one refused request.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

import msgspec

from lembasd.device import private_file
from lembasd.device.damaged import clear_the_way, read_record
from lembasd.device.paths import Paths
from lembasd.device.regular import open_regular

#: after it a server is asked again
KEPT_S: Final = 14 * 24 * 3600.0
#: servers and models that are kept; of more the oldest are forgotten
MAX_ENTRIES: Final = 500
_NAME: Final = "servers.json"
#: fact: Unix seconds of its refusal
_Facts = dict[str, float]
_decoder: Final = msgspec.json.Decoder(dict[str, _Facts])


def known(paths: Paths, server: str, model: str, now: float) -> list[str]:
    """The facts of a model at a server; `now` is Unix seconds. Blocks, never raises."""
    facts = _load(paths.state / _NAME).get(_key(server, model), {})
    return sorted(fact for fact, at in facts.items() if _holds(at, now))


def remember(paths: Paths, server: str, model: str, facts: list[str], now: float) -> None:
    """Add facts. Blocks. Raises OSError."""
    path = paths.state / _NAME
    clear_the_way(path.with_name(f".{_NAME}.lock"))
    lock = open_regular(path.with_name(f".{_NAME}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        # several workers learn at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = _load(path)
        entries.setdefault(_key(server, model), {}).update(dict.fromkeys(facts, now))
        newest = sorted(entries.items(), key=lambda entry: -max(entry[1].values(), default=0.0))
        kept = {
            key: still
            for key, all_facts in newest[:MAX_ENTRIES]
            if (still := {fact: at for fact, at in all_facts.items() if _holds(at, now)})
        }
        private_file.write(path, msgspec.json.encode(kept))
    finally:
        os.close(lock)


def _key(server: str, model: str) -> str:
    return f"{server.rstrip('/')} {model}"


def _holds(at: float, now: float) -> bool:
    # one from the future was written by a clock that was wrong
    return now - KEPT_S < at <= now + 60.0


def _load(path: Path) -> dict[str, _Facts]:
    return read_record(path, _decoder.decode) or {}
