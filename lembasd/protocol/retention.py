"""How long what is stored is kept (`retention:` of config.yaml)."""

from typing import Final

from msgspec import Struct

DAY_S: Final = 86_400.0
#: of all that is stored of sessions; over it changes can be undone no more, the oldest first, then it is said
DEFAULT_BYTES: Final = 10 * 10**9


class Retention(Struct, frozen=True):
    """Ages in seconds since the session changed last (of logs and copies: the file), None for no end.

    What a person would miss stays by default, whatever its age: sessions, and the files that came with prompts.
    """

    sessions_s: float | None = None
    #: files that came with prompts, and images that the model was shown
    attachments_s: float | None = None
    #: what files were before a session's tools changed them
    undo_s: float | None = 30 * DAY_S
    #: copies of lines that could not be read; the journal has them still
    damaged_s: float | None = 90 * DAY_S
    #: parts of the log that were turned over
    logs_s: float | None = 90 * DAY_S
    max_bytes: int = DEFAULT_BYTES
