"""Loading everything before the first child: modules, data, the loop's machinery."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lembasd.device import runtime
from lembasd.device.milestones import reached
from lembasd.zygote.entries import Kind


async def _nothing() -> None:
    """One turn of a loop: what asyncio, anyio and uvloop make at the first one is then made."""


#: a thread that has given its result is gone in microseconds
THREAD_ENDS_S: Final = 1.0


def warm(kind: Kind, *, rehearsed: bool) -> None:
    """Import what a child of this kind can need, and open and close one loop. `rehearsed`: open sessions too."""
    gc.disable()
    if kind == "worker":
        import lembasd.worker.main
        import lembasd.worker.utility
        from lembasd.engine.native import warm as warm_engine

        warm_engine()
        if rehearsed:
            from lembasd.zygote.rehearsal import rehearse

            # what loading looked up makes room for what sessions look up
            _forget_look_ups()
            rehearse()
            return
    else:
        import lembasd.pty.main  # noqa: F401
    runtime.run(_nothing)
    _forget_look_ups()


def settle() -> None:
    """Check that a fork is safe here (one thread), and put what is loaded out of the collector's way."""
    end = time.monotonic() + THREAD_ENDS_S
    while threading.active_count() != 1 or _threads() != 1:
        if time.monotonic() > end:
            raise RuntimeError("a zygote has one thread, for a fork copies no other")
        time.sleep(0.001)
    gc.collect()
    _fill_holes()
    gc.freeze()


#: what the interpreter's small objects are made of: sizes in steps of 16 bytes up to this one, in pools of 16 KiB
LARGEST_SMALL: Final = 512
POOL_BYTES: Final = 16 * 1024
#: blocks of one size that are taken at most: there are not so many holes
MAX_BLOCKS: Final = 100_000
_fillers: list[object] = []


def _fill_holes() -> None:
    """Take what is free between the objects that loading left.

    A child's first few thousand objects would be put into these holes, one here and one there, and each would make a
    copy of the page that it lies on. So they come to lie together, on new pages.
    """
    for size in range(16, LARGEST_SMALL + 1, 16):
        in_row, last = 0, 0
        # as many one beside the other lie in a pool that was empty
        enough = max(4, POOL_BYTES // 2 // size)
        for _ in range(MAX_BLOCKS):
            block = _block(size)
            _fillers.append(block)
            in_row = in_row + 1 if id(block) == last + size else 0
            last = id(block)
            if in_row >= enough:
                break


def _block(size: int) -> object:
    """An object that takes so many bytes."""
    if size == sys.getsizeof(_BARE):
        return object()
    if size <= sys.getsizeof(b"") + 1:
        return float(len(_fillers))
    return bytes(size - sys.getsizeof(b""))


_BARE: Final = object()


def _forget_look_ups() -> None:
    """Empty the interpreter's cache of attribute look-ups.

    It holds a reference to each name that loading looked up. A child would drop them one by one as it works, and so
    make a copy of every page on which such a name lies: 0.3 MB for each idle worker.
    """
    name = "_clear_internal_caches" if sys.version_info >= (3, 13) else "_clear_type_cache"
    clear: Callable[[], None] | None = getattr(sys, name, None)
    if clear is not None:
        clear()


def _threads() -> int:
    tasks = Path("/proc/self/task")
    return sum(1 for _ in tasks.iterdir()) if sys.platform == "linux" else 1


def ready(kind: Kind, *, spare: bool) -> None:
    """Tell a waiting test that this process serves from now on."""
    reached("spare.ready" if spare else "zygote.ready", kind=kind, parent=os.getppid())
