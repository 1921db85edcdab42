"""state/recent/<root>.json: what was used lately below a directory, so that a search offers it first.

Several workers may write one at the same time, so each merges under a lock. A file that is lost or cannot be read
costs the order of a list.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.device import private_file
from lembasd.device.damaged import clear_the_way, read_record
from lembasd.device.paths import Paths
from lembasd.device.regular import open_regular
from lembasd.store.core import frecency
from lembasd.store.core.frecency import Use

#: directories that are remembered; of more, those that nobody used for longest are forgotten
MAX_ROOTS: Final = 200
_SUFFIX: Final = ".json"


class _Recent(Struct, frozen=True):
    root: str
    files: dict[str, Use] = {}


_decoder: Final = msgspec.json.Decoder(_Recent)


def weights(paths: Paths, root: str, now: float) -> dict[str, float]:
    """How much each name below `root` was used, as of `now` (Unix seconds). Blocks, never raises."""
    return {name: use.now(now) for name, use in _load(_path(paths, root), root).items()}


def note(paths: Paths, root: str, names: Iterable[str], now: float) -> None:
    """These names below `root` (/-separated, a directory's with a / at its end) were used. Blocks. Raises OSError."""
    path = _path(paths, root)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    clear_the_way(path.parent / ".lock")
    lock = open_regular(path.parent / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        recent = _Recent(root, frecency.used(_load(path, root), names, now))
        private_file.write(path, msgspec.json.encode(recent))
    finally:
        os.close(lock)


def prune(paths: Paths, most: int = MAX_ROOTS) -> int:
    """Forget the directories over `most` that were used least lately; how many. Blocks, never raises."""
    try:
        kept = [(one.stat().st_mtime, one) for one in _directory(paths).glob(f"*{_SUFFIX}")]
        oldest = sorted(kept, reverse=True)[most:]
        for _at, one in oldest:
            one.unlink()
    except OSError:
        return 0  # the next time
    return len(oldest)


def _directory(paths: Paths) -> Path:
    return paths.state / "recent"


def _path(paths: Paths, root: str) -> Path:
    name = hashlib.sha256(root.encode(errors="surrogateescape")).hexdigest()[:32]
    return _directory(paths) / f"{name}{_SUFFIX}"


def _load(path: Path, root: str) -> dict[str, Use]:
    recent = read_record(path, _decoder.decode)
    return recent.files if recent is not None and recent.root == root else {}
