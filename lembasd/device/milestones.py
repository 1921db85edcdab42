"""Named milestones for tests to wait on, instead of sleeping.

`LEMBASD_TEST_MILESTONES=<path>` names a Unix datagram socket; each `reached()` sends one JSON object there:
`{"name": "hub.listening", "pid": 123, …}`. Without the variable it costs one look-up and does nothing.

`LEMBASD_TEST_FREEZE=<path>`: the first process that reaches a milestone for which there is a file `<path>.<name>` takes the
file away and stops (SIGSTOP), so that a test can kill it there and nowhere else.
"""

import os
import signal
import socket
from pathlib import Path
from typing import Any, Final

import msgspec

VARIABLE: Final = "LEMBASD_TEST_MILESTONES"
FREEZE: Final = "LEMBASD_TEST_FREEZE"
#: seconds for a test that reads late: the kernel lets ten messages wait; after that one is lost
BEHIND_S: Final = 5.0


def reached(name: str, **fields: Any) -> None:
    """Tell a waiting test that this process is at `name`. Never raises; without a test it never waits."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    # taken first: who stops here is told of after the test asked for it
    stops = _takes(name)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(BEHIND_S)
            sender.connect(path)
            sender.send(msgspec.json.encode({"name": name, "pid": os.getpid(), **fields}))
    except OSError:
        pass  # the test that listened is gone
    if stops:
        os.kill(os.getpid(), signal.SIGSTOP)


def _takes(name: str) -> bool:
    """Whether this process is the one to stop at the milestone."""
    freeze = os.environ.get(FREEZE)
    if not freeze:
        return False
    try:
        Path(f"{freeze}.{name}").unlink()
    except OSError:
        return False  # this one is not named, or another process was first
    return True
