"""Which session a person means: an id, the beginning of one, or the last session of a directory."""

import os
from pathlib import Path
from typing import Final

from lembasd.device.paths import Paths
from lembasd.protocol.errors import EXIT_USAGE, UsageError
from lembasd.protocol.ids import is_session_id
from lembasd.store import catalogue, sessions

_PREFIX: Final = "ses_"


def resolve(paths: Paths, text: str) -> str:
    """The id that `text` stands for, with or without its `ses_`. Raises UsageError for none, and for several."""
    if is_session_id(text):
        return text
    start = text if text.startswith(_PREFIX) else _PREFIX + text
    found = [one for one in sessions.listed(paths) if text and one.startswith(start)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{text!r} stands for {len(found)} sessions; write more of the id", EXIT_USAGE
        )
    raise UsageError(f"{text!r} is no session; see `lembas sessions list`", EXIT_USAGE)


def last_in(paths: Paths, directory: Path) -> str | None:
    """The session of this directory that changed last, None when it has none."""
    here = os.path.realpath(directory)
    return next(
        (one.session_id for one in catalogue.sessions(paths) if one.root == here),
        None,
    )
