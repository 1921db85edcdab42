"""The portable way: a process that was started ahead, and becomes what the hub then asks for."""

import os
import socket

from lembasd import __version__
from lembasd.protocol.spawn import READY, Ready
from lembasd.zygote.child import Run, become, reset_signals
from lembasd.zygote.entries import Kind
from lembasd.zygote.warm import ready
from lembasd.zygote.wire import Control


def wait_and_become(control: socket.socket, kind: Kind, run: Run) -> int:
    """Wait for an assignment and run it; the exit code. 0 when the hub goes without having one.

    The control socket stays open to this process' end: that is how the hub learns of it.
    """
    reset_signals()
    hub = Control(control)
    hub.send(READY, Ready(__version__))
    ready(kind, spare=True)
    while True:
        assignments = hub.receive()
        if assignments is None:
            return 0
        if assignments:
            code = become(run, assignments[0])
            # no interpreter shutdown: as a forked child ends, so does a spare
            os._exit(code)
