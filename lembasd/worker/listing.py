"""What there is in a directory for a composer, before or beside a session. Everything here blocks."""

from pathlib import Path

from lembasd.device import limits
from lembasd.device.paths import Paths
from lembasd.engine.native import command_set
from lembasd.engine.native.core.commands import offered
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.protocol.ids import is_session_id
from lembasd.protocol.lembas import AvailableCommand, CommandsParams
from lembasd.worker import reading
from lembasd.worker.host import protected_paths


def commands(
    paths: Paths, asked: CommandsParams, settings: Settings, *, local: bool
) -> list[AvailableCommand]:
    """The commands of a session, or of a directory that has none. Raises RequestRefused.

    `local`: a person at this machine asks, whom the limits do not bind.
    """
    if asked.sessionId:
        if not is_session_id(asked.sessionId):
            raise RequestRefused(INVALID_PARAMS, "unknown session")
        root = Path(reading.root_of(paths, asked.sessionId))
        if not local:
            limits.judge_opened(root, settings)
    else:
        root = limits.judge_root(asked.cwd or "", settings, local=local)
    return offered(command_set.available(root, paths.commands, protected_paths(paths)))
