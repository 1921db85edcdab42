"""A process that is out of descriptors."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def none_left(but: int = 0) -> Iterator[None]:
    """This process can open no more files than `but`, for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []
    try:
        highest = os.open(os.devnull, os.O_RDONLY)
        opened.append(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
        try:
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(but):
            os.close(opened.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for handle in opened:
            os.close(handle)
