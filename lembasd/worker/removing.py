"""Deleting a session that nobody has open, for whom it may be: everything here blocks."""

import time
from pathlib import Path
from typing import Final

from lembasd.device import limits
from lembasd.device.paths import Paths
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import INTERNAL_ERROR, RequestRefused
from lembasd.store import deleting
from lembasd.store.core.fold import fold
from lembasd.store.journal import NoSession, SessionLocked, read

#: who holds a session's lock for longer works in it
LOCK_WAIT_S: Final = 2.0
_LOCK_STEP_S: Final = 0.05
_IN_USE: Final = "the session has just been opened; ask again in a moment"


def delete(paths: Paths, session_id: str, settings: Settings, *, local: bool) -> bool:
    """Delete it; False when there is none. `local`: a person on this machine asks, who may delete every session.

    Raises RequestRefused.
    """
    give_up = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            if not local:
                _judge(paths, session_id, settings)
            deleting.delete(paths, session_id, tell=local)
        except NoSession:
            return False
        except SessionLocked:
            if time.monotonic() >= give_up:
                data = {"reason": "busy", "retryable": True}
                raise RequestRefused(INTERNAL_ERROR, _IN_USE, data) from None
            time.sleep(_LOCK_STEP_S)
        except OSError as error:
            raise RequestRefused(
                INTERNAL_ERROR,
                f"the session could not be deleted ({error.strerror}); see to the disk, then try again",
                {"reason": "store"},
            ) from error
        else:
            return True


def _judge(paths: Paths, session_id: str, settings: Settings) -> None:
    view = fold(read(paths, session_id).records)
    if not view.given:
        limits.judge_deleted(Path(view.root), settings)
