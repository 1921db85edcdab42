"""Jobs that a shell started while it was hung up, which it has not told of the hang-up."""

import os
from contextlib import suppress
from typing import Final

import psutil

from lembasd.device import process_tree

#: a job younger than this at the hang-up may not have heard it: bash hands a signal on to its jobs, but one that comes
#: between the fork and the exec is swallowed by bash's own handler in the child. An older one has heard it, or has
#: been kept from it (`disown`, `nohup`), and stays, as at any terminal
YOUNG_S: Final = 0.5


def late_jobs(hung_up_ago_s: float) -> set[int]:
    """The process groups of this process' session whose every process began since the hang-up, or YOUNG_S before it.

    This process' own group and what has ended are left out.
    """
    session, own = os.getsid(0), os.getpgrp()
    oldest: dict[int, float] = {}
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) != session or (group := os.getpgid(pid)) == own:
                continue
            age_s = process_tree.age_s(pid)
            if age_s is not None:
                oldest[group] = max(age_s, oldest.get(group, 0.0))
    return {group for group, age_s in oldest.items() if age_s <= hung_up_ago_s + YOUNG_S}
