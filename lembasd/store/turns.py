"""turns/<sessionId>.json: the finished turns with their answers, beside the journal they come from.

Every program of this install that holds the session writes it, so it is merged with what is there and put in place by
rename. It may be lost or behind: at open it is made again from the journal, which wins.
"""

import os
import time
from pathlib import Path
from typing import Final

import msgspec

from lembasd.device.damaged import read_record
from lembasd.device.paths import Paths
from lembasd.store.core.ledger import Ledger, Turn, merge

#: files that nobody has written for so long are removed (link.md, session/prompt)
KEPT_S: Final = 30 * 24 * 3600.0
_SUFFIX: Final = ".json"
_decoder: Final = msgspec.json.Decoder(list[Turn])


def path_of(paths: Paths, session_id: str) -> Path:
    return paths.turns / f"{session_id}{_SUFFIX}"


def load(path: Path) -> Ledger:
    """What the file keeps; nothing when it is not there, or cannot be read: then it is put aside."""
    turns = read_record(path, _decoder.decode) or []
    return Ledger({turn.turn_id: turn for turn in turns if turn.state == "done"})


def save(path: Path, ledger: Ledger) -> None:
    """Merge the finished turns of `ledger` into the file, by rename. Blocks. Raises OSError."""
    finished = Ledger({turn.turn_id: turn for turn in ledger.done()})
    data = msgspec.json.encode(merge(load(path), finished).done())
    _replace(path, data)


def rebuild(path: Path, ledger: Ledger) -> None:
    """Put the finished turns of `ledger` in the file's place, whatever it held. Blocks. Raises OSError."""
    _replace(path, msgspec.json.encode(ledger.done()))


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(handle)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    temporary.replace(path)


def prune(paths: Paths, now: float | None = None) -> int:
    """Remove the files that nobody wrote for KEPT_S (`now` is Unix seconds); how many. Blocks, never raises."""
    oldest = (time.time() if now is None else now) - KEPT_S
    removed = 0
    try:
        for path in paths.turns.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink()
                removed += 1
    except OSError:
        pass  # what is left is seen to the next time
    return removed
