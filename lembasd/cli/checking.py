"""`lembasd run --check`: whether this installation could run, without running it."""

import importlib
from typing import Final

from lembasd.hub import main as hub
from lembasd.protocol.errors import UsageError

#: what the hub's helpers import when they start
_PROCESSES: Final = (
    "lembasd.worker.main",
    "lembasd.worker.utility",
    "lembasd.pty.main",
    "lembasd.engine.native.engine",
    "lembasd.zygote.serve",
    "lembasd.zygote.rehearsal",
)


def check_install(*, as_json: bool = False) -> int:
    """Import what every process needs, read the config, say the versions (`as_json`: to a hub); the exit code.

    Raises UsageError for a module that cannot be imported.
    """
    for name in _PROCESSES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UsageError(
                f"{name} cannot be imported ({error}); install lembasd again"
            ) from error
    return hub.check(as_json=as_json)
