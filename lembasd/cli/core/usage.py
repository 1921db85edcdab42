"""What sessions, terminals and the service itself use, from two looks at the machine's processes."""

from collections.abc import Iterable, Mapping

from msgspec import Struct


class Owner(Struct, frozen=True):
    """Whose processes: everything below `pid`, or `pid` alone with `alone`. `memory_bytes`: what it says of itself (0: nothing)."""

    kind: str
    id: str
    pid: int
    state: str = ""
    title: str = ""
    memory_bytes: int = 0
    alone: bool = False


class Seen(Struct, frozen=True):
    """A process at one look. `started` tells it from another that has its number later."""

    started: float
    parent: int
    cpu_s: float
    memory_bytes: int


class Usage(Struct, frozen=True):
    """`cpu_percent` of one core, since the look before; `processes` with its own."""

    kind: str
    id: str
    pid: int
    state: str
    title: str
    processes: int
    cpu_percent: float
    memory_bytes: int


def tree(pid: int, parents: Mapping[int, int]) -> list[int]:
    """The process and everything below it."""
    below: dict[int, list[int]] = {}
    for child, parent in parents.items():
        below.setdefault(parent, []).append(child)
    found, at = [pid], 0
    while at < len(found):
        # a parent that is read later than its child may close a circle
        found += [one for one in below.get(found[at], []) if one not in found]
        at += 1
    return found


def usage(
    owners: Iterable[Owner], before: Mapping[int, Seen], now: Mapping[int, Seen], apart_s: float
) -> list[Usage]:
    """What each owner uses, the busiest first. One whose process is gone is left out."""
    parents = {pid: one.parent for pid, one in now.items()}
    found = []
    for owner in owners:
        if owner.pid not in now:
            continue
        pids = [owner.pid] if owner.alone else tree(owner.pid, parents)
        cpu_s = sum(_spent(before.get(pid), now[pid]) for pid in pids)
        memory = sum(now[pid].memory_bytes for pid in pids)
        if owner.memory_bytes:
            memory += owner.memory_bytes - now[owner.pid].memory_bytes
        found.append(
            Usage(
                owner.kind,
                owner.id,
                owner.pid,
                owner.state,
                owner.title,
                len(pids),
                round(100 * cpu_s / apart_s, 1) if apart_s > 0 else 0.0,
                memory,
            )
        )
    return sorted(found, key=lambda one: (-one.cpu_percent, -one.memory_bytes))


def _spent(before: Seen | None, now: Seen) -> float:
    """Seconds of a core since the look before; of a process that came since, all that it took."""
    if before is None or before.started != now.started:
        return now.cpu_s
    return max(0.0, now.cpu_s - before.cpu_s)
