"""How often and how lately something was used, in one number: each use counts 1, and half of it three days later."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

#: after so many seconds a use counts half
HALF_LIFE_S: Final = 3 * 86_400.0
#: names that are kept; of more, those with the lowest number are forgotten
MAX_NAMES: Final = 500


class Use(Struct, frozen=True, array_like=True):
    """The number as it was at `at`, Unix seconds."""

    score: float
    at: float

    def now(self, now: float) -> float:
        """The number at `now`; a use of the future, which a wrong clock wrote, is one of now."""
        return float(self.score * 0.5 ** (max(0.0, now - self.at) / HALF_LIFE_S))


def used(uses: Mapping[str, Use], names: Iterable[str], now: float) -> dict[str, Use]:
    """`uses` with one more use of each of these names, the highest first."""
    more = dict(uses)
    for name in names:
        before = more.get(name)
        more[name] = Use((before.now(now) if before is not None else 0.0) + 1.0, now)
    best = sorted(more.items(), key=lambda item: (-item[1].now(now), item[0]))
    return dict(best[:MAX_NAMES])
