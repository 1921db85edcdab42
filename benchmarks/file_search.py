"""What `_lembas/files/search` costs in a tree of 100,000 files: the first answer, and each keystroke after it."""

import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.measure import Figure, median
from lembasd.device.paths import Paths
from lembasd.protocol.control import Settings
from lembasd.worker.core.file_requests import Asked
from lembasd.worker.file_search import FileSearch
from lembasd.worker.lanes import Lanes

FOLDERS: Final = 5_000
FILES_OF_ONE: Final = 20
#: what a person types, letter by letter: a name, letters of one, a name with a mistake, a directory
TYPED: Final = ("router.py", "hbrtpy", "dialr_sesion", "session/core")
_WORDS: Final = (
    *("hub", "core", "router", "main", "test", "worker", "session", "link", "dialer", "config"),
    *("index", "utils", "model", "view", "controller", "api", "server", "client", "page", "list"),
    *("component", "button", "form", "detail", "user", "admin", "auth", "token", "cache", "store"),
)


async def measure() -> list[Figure]:
    """The figures of searches."""
    with tempfile.TemporaryDirectory() as name:
        base = _made(Path(name))
        root = base / "p"
        paths = Paths(config=base / "c", state=base / "s", run=base / "r")
        files = FileSearch(paths, Lanes())
        first_s = await _timed(files, root, "r")
        keystrokes_s = [
            await _timed(files, root, text[:end])
            for text in TYPED
            for end in range(1, len(text) + 1)
        ]
    worst_ms = 1000 * max(keystrokes_s)
    basis = f"median of {len(keystrokes_s)}, {worst_ms:.0f} at worst; {files.kept_bytes / 1e6:.0f} MB are kept"
    count = FOLDERS * FILES_OF_ONE
    return [
        Figure(f"first search among {count:,} files", first_s, "s", 5, 1, higher=False),
        Figure(
            "a keystroke after it",
            1000 * median(keystrokes_s),
            "ms",
            50,
            20,
            higher=False,
            basis=basis,
        ),
    ]


async def _timed(files: FileSearch, root: Path, text: str) -> float:
    begun = time.perf_counter()
    await files.answer(Asked("", str(root), text, 20), Settings(), local=True)
    return time.perf_counter() - begun


def _made(directory: Path) -> Path:
    """The directory without links in its path, a tree in it."""
    base = directory.resolve()
    _tree(base / "p")
    return base


def _tree(root: Path) -> None:
    rng = Random(1)
    for _ in range(FOLDERS):
        depth = rng.randint(1, 6)
        parts = [
            rng.choice(_WORDS) + str(rng.randint(0, 40)) * rng.randint(0, 1) for _ in range(depth)
        ]
        folder = root.joinpath(*parts)
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(FILES_OF_ONE):
            words = f"{rng.choice(_WORDS)}_{rng.choice(_WORDS)}{rng.randint(0, 999)}"
            (folder / f"{words}.{rng.choice(('py', 'ts', 'md'))}").touch()
