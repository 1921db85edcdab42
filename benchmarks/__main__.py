"""`python -m benchmarks [routing|sessions …]`: measure, print the table; 1 when a figure that must hold does not."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

import uvloop

from benchmarks import (
    engine,
    file_search,
    files,
    judge,
    local_clients,
    routing,
    sessions,
    terminal_cards,
    terminal_flow,
    terminals,
    tui,
)
from benchmarks.measure import Figure, table

_PARTS = {
    "sessions": sessions.measure,
    "routing": routing.measure,
    "local_clients": local_clients.measure,
    "engine": engine.measure,
    "judge": judge.measure,
    "files": files.measure,
    "file_search": file_search.measure,
    "terminal_flow": terminal_flow.measure,
    "terminal_cards": terminal_cards.measure,
    "terminals": terminals.measure,
    "tui": tui.measure,
}


async def measure(parts: Sequence[str]) -> list[Figure]:
    """The figures of these parts, one part after the other."""
    figures = []
    for part in parts:
        print(f"measuring {part} …", file=sys.stderr, flush=True)
        figures += await _PARTS[part]()
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{' and '.join(_PARTS)}; all when none is named")
    parts = parser.parse_args().parts or list(_PARTS)
    if unknown := set(parts) - set(_PARTS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(measure(parts))
    print(table(figures))
    return 0 if all(one.holds for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
