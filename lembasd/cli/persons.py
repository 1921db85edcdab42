"""Commands that are a person's alone: a session's own processes are refused.

It keeps an agent that tries from what it was not asked to do; one that writes the files itself is the business of the
permission floor, and of nobody once it may run anything (docs/security.md).
"""

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lembasd.device.paths import find_paths
from lembasd.protocol.errors import AGENTS_REFUSED, EXIT_REFUSED, UsageError
from lembasd.store import agents

P = ParamSpec("P")
R = TypeVar("R")


def refuse_agents() -> None:
    """Raises UsageError when this process was started by a session's tools."""
    if agents.is_agents(find_paths(), os.getpid()):
        raise UsageError(AGENTS_REFUSED, EXIT_REFUSED)


def persons_only(command: Callable[P, R]) -> Callable[P, R]:
    """The command, refused to a session's own processes."""

    @functools.wraps(command)
    def guarded(*args: P.args, **options: P.kwargs) -> R:
        refuse_agents()
        return command(*args, **options)

    return guarded
