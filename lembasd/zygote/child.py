"""From a copy of the zygote, or from a spare, to a process of its own."""

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final

from lembasd.protocol.spawn import Assignment

#: exit code of a child whose main raised: a fault of ours, its trace is in the log directory
EXIT_CRASHED: Final = 70
_LEFT_ALONE: Final = {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}

Run = Callable[[Assignment], int]


def reset_signals() -> None:
    """Every signal as a new process has it, none blocked. A zygote does it once, for all its children inherit it.

    SIGPIPE and SIGXFSZ stay ignored, as Python has it: a write to a closed socket, or to a file that grew to its bound, is
    an error, not the end. What this process execs gets the default back (`restore_signals`, and the shell of a terminal).
    """
    for number in signal.valid_signals() - _LEFT_ALONE:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def become(run: Run, assignment: Assignment) -> int:
    """Run the assignment to its end and give its exit code. Never raises: there is nothing above to catch it."""
    try:
        gc.enable()
        return run(assignment)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else EXIT_CRASHED
    except BaseException:  # noqa: BLE001 - the last edge of a process
        traceback.print_exc()
        return EXIT_CRASHED
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def fork(run: Run, assignment: Assignment, close: Callable[[], None]) -> int:
    """Fork a child that calls `close` on what is not its own, then runs the assignment; its pid. Raises OSError."""
    pid = os.fork()
    if pid:
        return pid
    code = EXIT_CRASHED
    try:
        os.setsid()
        close()
        code = become(run, assignment)
    finally:
        os._exit(code)
