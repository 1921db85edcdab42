"""Whether this process may still open files. Out of descriptors it sees nothing, and what it does not see it must not judge."""

import errno
import os
from contextlib import suppress
from typing import Final

#: what the widest look opens at once (a directory of the kernel's, and a file in it), and one for another thread's
_NEEDED: Final = 3


def are_left() -> bool:
    """Whether a look at the kernel's files can be had now."""
    opened: list[int] = []
    try:
        for _ in range(_NEEDED):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401 - kept on the way
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    finally:
        for handle in opened:
            with suppress(OSError):
                os.close(handle)
    return True
