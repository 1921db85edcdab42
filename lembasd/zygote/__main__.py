"""The command line of zygotes and spares. The hub alone starts them."""

import argparse
import os
import socket
import sys
from typing import get_args

# httpx and structlog load what decorates a terminal wherever it is installed: 90 modules that no child ever uses. To
# name a module None here is the language's own way to say that there is none.
for _decoration in ("rich", "httpx._main"):
    sys.modules[_decoration] = None  # type: ignore[assignment]

# ruff: noqa: E402 - after the line above
from lembasd.device import cgroups, dumps, runtime
from lembasd.device.lock import Membership
from lembasd.device.paths import find_paths
from lembasd.zygote.entries import Kind, run
from lembasd.zygote.serve import Zygote
from lembasd.zygote.spare import wait_and_become
from lembasd.zygote.warm import settle, warm


def main() -> int:
    parser = argparse.ArgumentParser(prog="lembasd.zygote", description=__doc__)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--kind", choices=get_args(Kind), required=True)
    parser.add_argument("--spare", action="store_true")
    given = parser.parse_args()
    os.set_inheritable(given.fd, False)
    control = socket.socket(fileno=given.fd)
    control.setblocking(True)
    dumps.forbid()
    runtime.restore_descriptors()
    paths = find_paths()
    membership = Membership.join(paths)
    if not given.spare:
        # a worker zygote is given what the tools of a killed worker left behind, and ends it; a PTY zygote is given
        # what a person left running in a terminal, and keeps it out of the hub's hands
        runtime.become_subreaper()
    warm(given.kind, rehearsed=not given.spare)
    settle()
    if given.spare:
        return wait_and_become(control, given.kind, run)
    groups = cgroups.find(paths)
    return Zygote(control, given.kind, run, paths, membership, groups).serve()


if __name__ == "__main__":
    sys.exit(main())
