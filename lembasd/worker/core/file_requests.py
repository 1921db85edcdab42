"""Reading what clients ask about the device's files."""

from typing import Final

import msgspec
from msgspec import Struct

from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.protocol.lembas import DirectoriesParams, FilesSearchParams

#: what is typed behind an @; a longer text is none
MAX_QUERY_CHARS: Final = 500
#: answers when a client names no number, and at most (link.md, _lembas/files/search)
DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 50

_search: Final = msgspec.json.Decoder(FilesSearchParams)
_directories: Final = msgspec.json.Decoder(DirectoriesParams)


class Asked(Struct, frozen=True):
    """What is looked for: below a session's directory, or below `cwd` where `session` is empty."""

    session: str
    cwd: str
    query: str
    limit: int


def read_search(params: bytes) -> Asked:
    """The params of _lembas/files/search. Raises RequestRefused (-32602)."""
    try:
        asked = _search.decode(params or b"{}")
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refused(f"the params of _lembas/files/search cannot be read: {error}") from error
    if bool(asked.sessionId) == bool(asked.cwd):
        raise _refused("_lembas/files/search needs a sessionId or a cwd; name one of them")
    if len(asked.query) > MAX_QUERY_CHARS:
        raise _refused(f"a query has at most {MAX_QUERY_CHARS} characters; send less of it")
    limit = DEFAULT_LIMIT if asked.limit is None else min(max(asked.limit, 1), MAX_LIMIT)
    return Asked(asked.sessionId or "", asked.cwd or "", asked.query, limit)


def read_directories(params: bytes) -> str:
    """The path of _lembas/directories, "" for none. Raises RequestRefused (-32602)."""
    try:
        return _directories.decode(params or b"{}").path or ""
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refused(f"the params of _lembas/directories cannot be read: {error}") from error


def _refused(sentence: str) -> RequestRefused:
    return RequestRefused(INVALID_PARAMS, sentence)
