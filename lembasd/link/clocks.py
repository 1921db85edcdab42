"""The two clocks of a machine that may sleep."""

import sys
import time


def slept_s() -> float:
    """How long this machine has slept since some moment, in seconds: two clocks, one of which stops in a sleep.

    Neither is the wall clock, which a person or a time server may set.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC) - time.clock_gettime(time.CLOCK_UPTIME_RAW)
    return time.time() - time.monotonic()
