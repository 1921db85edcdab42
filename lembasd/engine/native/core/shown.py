"""What the model has seen already: an unchanged file or listing is answered with where it stands, not once more.

Only at the time a result is made: what was sent is never rewritten. A stub names a result that is in the request
being built; after a compaction nothing counts as seen.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.store.records import Seen

#: a shorter result is its own stub
MIN_CHARS: Final = 200
#: tools whose whole result counts, by their arguments
LISTINGS: Final = frozenset({"list", "glob", "grep"})
_encoder: Final = msgspec.json.Encoder(order="sorted")


class _Lines(Struct, frozen=True):
    digest: str
    first: int
    last: int
    result_id: str


class Shown:
    """Reads by path as the call gave it, listings by their arguments."""

    def __init__(self) -> None:
        self._reads: dict[str, list[_Lines]] = {}
        self._listings: dict[str, tuple[str, str]] = {}

    def stub(self, name: str, args: dict[str, Any], output: str, seen: Seen | None) -> str | None:
        """What to answer in place of `output`, None when it is new."""
        if seen is not None:
            for one in self._reads.get(seen.path, []):
                if one.digest == seen.digest and one.first <= seen.first and seen.last <= one.last:
                    return f"[unchanged since {one.result_id}, which shows lines {one.first}-{one.last}]"
            return None
        if name in LISTINGS and len(output) >= MIN_CHARS:
            before, result_id = self._listings.get(_key(name, args), ("", ""))
            if before == output:
                return f"[the same as {result_id}]"
        return None

    def add(
        self, name: str, args: dict[str, Any], output: str, seen: Seen | None, result_id: str
    ) -> None:
        """Take in a result that the model is shown whole."""
        if seen is not None:
            lines = _Lines(seen.digest, seen.first, seen.last, result_id)
            same = [one for one in self._reads.get(seen.path, []) if one.digest == seen.digest]
            self._reads[seen.path] = [*same, lines]
        elif name in LISTINGS and len(output) >= MIN_CHARS:
            self._listings[_key(name, args)] = (output, result_id)

    def clear(self) -> None:
        """Nothing of it is in the next request."""
        self._reads.clear()
        self._listings.clear()

    def table(self) -> list[tuple[str, int, int, str]]:
        """The reads: path, first and last line, content hash; in the order they came."""
        return [
            (path, one.first, one.last, one.digest)
            for path, lines in self._reads.items()
            for one in lines
        ]


def _key(name: str, args: dict[str, Any]) -> str:
    return f"{name} {_encoder.encode(args).decode()}"
