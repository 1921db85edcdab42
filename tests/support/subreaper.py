"""Undoing what a worker does to its process, for the tests that come after."""

import ctypes
import sys


def no_subreaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
