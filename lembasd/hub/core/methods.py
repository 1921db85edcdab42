"""Which method goes where. A method that is not in the table is answered with -32601."""

from enum import Enum
from typing import Final


class Target(Enum):
    """Who answers a method."""

    #: the hub itself: `initialize`
    INITIALIZE = "initialize"
    #: a worker that is started for it: `session/new`
    NEW_SESSION = "new_session"
    #: the session's worker, started when there is none
    ENGINE = "engine"
    #: the session's worker when there is one; a session that is not open has nothing to do for it
    LIVE = "live"
    #: the session's worker, or the utility worker when the session is not open
    READER = "reader"
    #: the utility worker, whatever session or directory it names
    UTILITY = "utility"
    #: a pty process that is started for it
    NEW_TERMINAL = "new_terminal"
    #: the terminal's pty process
    TERMINAL = "terminal"
    #: the same, after the client was attached to it
    ATTACH_TERMINAL = "attach_terminal"
    #: the hub itself, for clients on this machine alone; needs no `initialize`
    STATUS = "status"
    ATTACH = "attach"
    STOP = "stop"
    RELOAD = "reload"


#: targets that only a client on this machine may name; to the link they do not exist
LOCAL: Final = frozenset({Target.STATUS, Target.ATTACH, Target.STOP, Target.RELOAD})
#: methods of a session's worker that only a client on this machine may name
LOCAL_METHODS: Final = frozenset({"_hub/share"})
#: methods that only the link has (link.md, _lembas/directories)
LINK: Final = frozenset({"_lembas/directories"})

#: targets that a process of a session's own tools may name: an agent does not approve itself, prompt itself or stop us
FOR_AGENTS: Final = frozenset({Target.INITIALIZE, Target.STATUS})

_TABLE: Final = {
    "initialize": Target.INITIALIZE,
    "session/new": Target.NEW_SESSION,
    "session/prompt": Target.ENGINE,
    "session/set_mode": Target.ENGINE,
    "session/cancel": Target.LIVE,
    "_lembas/steer": Target.READER,
    "_lembas/configure": Target.ENGINE,
    "_lembas/session/title": Target.ENGINE,
    "_lembas/session/compact": Target.ENGINE,
    "_lembas/session/rewind": Target.ENGINE,
    "_lembas/session/delete": Target.READER,
    "_lembas/session/status": Target.READER,
    "_lembas/session/history": Target.READER,
    "_lembas/commands": Target.UTILITY,
    "_lembas/files/search": Target.UTILITY,
    "_lembas/directories": Target.UTILITY,
    "_lembas/terminal/open": Target.NEW_TERMINAL,
    "_lembas/terminal/attach": Target.ATTACH_TERMINAL,
    "_lembas/terminal/ack": Target.TERMINAL,
    "_lembas/terminal/input": Target.TERMINAL,
    "_lembas/terminal/resize": Target.TERMINAL,
    "_lembas/terminal/close": Target.TERMINAL,
    "_hub/status": Target.STATUS,
    "_hub/attach": Target.ATTACH,
    "_hub/share": Target.ENGINE,
    "_hub/stop": Target.STOP,
    "_hub/reload": Target.RELOAD,
}

#: the method that opens a session again which three ends of its worker within a minute have closed
REOPENS: Final = "session/prompt"
#: the one reading method that answers for a session nobody knows
STATUS_METHOD: Final = "_lembas/session/status"

#: the one reading method that needs nothing of a session's process
HISTORY_METHOD: Final = "_lembas/session/history"

#: the method after which the session is gone; of one that nobody knows it is done already
DELETE_METHOD: Final = "_lembas/session/delete"


def target(method: str, *, local: bool) -> Target | None:
    """Who answers `method` for a client on this machine or the link; None: nobody does."""
    found = _TABLE.get(method)
    is_local = found in LOCAL or method in LOCAL_METHODS
    if (is_local and not local) or (method in LINK and local):
        return None
    return found
