"""Named milestones for tests to wait on, instead of sleeping.

`LEMBASD_TEST_MILESTONES=<path>` names a Unix datagram socket; each `reached()` sends one JSON object there:
`{"name": "hub.listening", "pid": 123, …}`. Without the variable it costs one look-up and does nothing.
"""

import os
import socket
from typing import Any, Final

import msgspec

VARIABLE: Final = "LEMBASD_TEST_MILESTONES"


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
