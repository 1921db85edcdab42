"""Named milestones for tests to wait on, instead of sleeping.

`LEMBASD_TEST_MILESTONES=<path>` names a Unix datagram socket; each `reached()` sends one JSON object there:
`{"name": "hub.listening", "pid": 123, …}`. Without the variable it costs one look-up and does nothing.

`LEMBASD_TEST_FREEZE=<path>` names a file that holds the name of one milestone: the first process to reach it takes the file
away and stops (SIGSTOP), so that a test can kill it there and nowhere else.
"""

import os
import signal
import socket
from pathlib import Path
from typing import Any, Final

import msgspec

VARIABLE: Final = "LEMBASD_TEST_MILESTONES"
FREEZE: Final = "LEMBASD_TEST_FREEZE"


def reached(name: str, **fields: Any) -> None:
    """Tell a waiting test that this process is at `name`; never blocks, never raises."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(msgspec.json.encode({"name": name, "pid": os.getpid(), **fields}), path)
    except OSError:
        pass  # the test that listened is gone
    freeze = os.environ.get(FREEZE)
    if freeze:
        _freeze(Path(freeze), name)


def _freeze(file: Path, name: str) -> None:
    try:
        if file.read_text() != name:
            return
        file.unlink()
    except OSError:
        return  # none is named, or another process was first
    os.kill(os.getpid(), signal.SIGSTOP)
