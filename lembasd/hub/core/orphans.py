"""Which of the processes that carry a session's marker were left behind: their worker is gone."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct


class Carrier(Struct, frozen=True, order=True):
    """A process that carries the marker: of which session's tools, in which life of its worker."""

    pid: int
    session_id: str
    epoch: int


def left_behind(
    carriers: Iterable[Carrier], ours: Collection[str], held: Mapping[str, int | None]
) -> list[Carrier]:
    """Those of our sessions whose worker is gone, in their order.

    `ours`: the sessions of this install; another install's are its own hub's business. `held`: of those that have a
    worker now, the epoch of its life, None where that cannot be told; what an earlier life left is left behind too.
    """
    return [one for one in carriers if one.session_id in ours and _is_left(one, held)]


def _is_left(one: Carrier, held: Mapping[str, int | None]) -> bool:
    if one.session_id not in held:
        return True
    epoch = held[one.session_id]
    return epoch is not None and one.epoch < epoch
