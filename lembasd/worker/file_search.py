"""`_lembas/files/search`: lists a directory's files, keeps the list for a short time, and looks through it."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device import environment, limits
from lembasd.device.paths import Paths
from lembasd.engine.native.searches import Bounds, Search
from lembasd.engine.native.tools.outcome import Unusable
from lembasd.engine.native.tools.search_program import Request
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import INTERNAL_ERROR, RequestRefused
from lembasd.protocol.lembas import FilesSearchResult
from lembasd.protocol.limits import MIB
from lembasd.store import recent_files
from lembasd.worker.core.file_index import FileIndex, named
from lembasd.worker.core.file_ranking import Ranking
from lembasd.worker.core.file_requests import Asked
from lembasd.worker.host import protected_paths
from lembasd.worker.lanes import Lanes
from lembasd.worker.reading import root_of

#: a listing that takes longer is ended; what it found so far is looked through
LIST_S: Final = 8.0
#: of a listing; of more, it is ended likewise
MAX_LISTING_BYTES: Final = 128 * MIB
#: a list is as good as new for so long, and for so many times as it took to make
FRESH_S: Final = 5.0
FRESH_TIMES: Final = 10.0
#: a list that nobody looks through is kept for so long
KEPT_S: Final = 60.0
#: lists that are kept, and their bytes; of more, those that were used least lately are dropped
MAX_KEPT: Final = 8
MAX_KEPT_BYTES: Final = 256 * MIB


class _Kept(Struct):
    """The files below `root`. Times are monotonic seconds."""

    root: Path
    ranking: Ranking
    listed_at: float
    took_s: float
    used_at: float

    def is_fresh(self, now: float) -> bool:
        return now - self.listed_at <= max(FRESH_S, FRESH_TIMES * self.took_s)


class FileSearch:
    """Searches of all directories. `list_s`: how long listing one may take."""

    def __init__(
        self,
        paths: Paths,
        lanes: Lanes,
        list_s: float = LIST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._lanes = lanes
        self._bounds = Bounds(seconds=list_s, output_bytes=MAX_LISTING_BYTES)
        self._clock = clock
        #: by what was asked for, a session's id or a directory; read and written by the threads of its lanes
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._listing: set[Search] = set()

    async def answer(self, asked: Asked, settings: Settings, *, local: bool) -> FilesSearchResult:
        """The answer. Raises RequestRefused, also for a directory that the limits do not allow now."""
        folder = asked.session or asked.cwd
        found = await self._lanes.run(folder, lambda: self._look(asked, settings, local=local))
        self.drop_old()
        return found

    def drop_old(self) -> None:
        """Forget the lists that nobody needs, and those over the bounds."""
        now = self._clock()
        with self._lock:
            kept = sorted(self._kept.items(), key=lambda item: -item[1].used_at)
            size_bytes, self._kept = 0, {}
            for folder, one in kept[:MAX_KEPT]:
                size_bytes += one.ranking.index.size_bytes
                if now - one.used_at <= KEPT_S and size_bytes <= MAX_KEPT_BYTES:
                    self._kept[folder] = one

    def close(self) -> None:
        """End what still lists."""
        with self._lock:
            for search in self._listing:
                search.end()

    @property
    def kept_bytes(self) -> int:
        """What the lists that are kept hold in memory."""
        with self._lock:
            return sum(one.ranking.index.size_bytes for one in self._kept.values())

    # ── in a thread ─────────────────────────────────────────────────────────────────────────────

    def _look(self, asked: Asked, settings: Settings, *, local: bool) -> FilesSearchResult:
        cwd = root_of(self._paths, asked.session) if asked.session else asked.cwd
        root = limits.judge_root(cwd, settings, local=local)
        ranking = self._ranking(asked.session or asked.cwd, root)
        used = recent_files.weights(self._paths, str(root), time.time())
        return FilesSearchResult(str(root), ranking.rank(asked.query, used, asked.limit))

    def _ranking(self, folder: str, root: Path) -> Ranking:
        began = self._clock()
        with self._lock:
            kept = self._kept.get(folder)
            if kept is not None and kept.root == root and kept.is_fresh(began):
                kept.used_at = began
                return kept.ranking
        ranking = Ranking(FileIndex(self._listed(root)))
        now = self._clock()
        with self._lock:
            self._kept[folder] = _Kept(root, ranking, now, now - began, now)
        return ranking

    def _listed(self, root: Path) -> list[bytes]:
        search = Search(environment.for_shell(os.environ), self._bounds)
        with self._lock:
            self._listing.add(search)
        try:
            found = search.run(root, Request())
        except Unusable as error:
            raise _unlisted(f"the files of {root} cannot be listed: {error}; try again") from error
        finally:
            with self._lock:
                self._listing.discard(search)
        if found.stopped and not found.data:
            seconds = self._bounds.seconds
            raise _unlisted(
                f"{root} did not list its files within {seconds:g} s; see to its disk, then try again"
            )
        ours = self._protected(root)
        names = named(found.data)
        return [name for name in names if not name.startswith(ours)] if ours else names

    def _protected(self, root: Path) -> tuple[bytes, ...]:
        """How names begin that no prompt may name: our own files."""
        inside = (one for one in protected_paths(self._paths) if root in one.parents)
        return tuple(os.fsencode(one.relative_to(root)) + b"/" for one in inside)


def _unlisted(sentence: str) -> RequestRefused:
    return RequestRefused(INTERNAL_ERROR, sentence, {"reason": "no_answer", "retryable": True})
