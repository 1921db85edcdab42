"""When a turn that its device did not take is sent once more. Pure."""

from typing import Any, Final

#: pauses before a turn is sent again, in seconds; after the last one the device's error is the turn's end
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
#: reasons that say the turn was not taken in: the device has no answer of it to repeat
NOT_TAKEN: Final = frozenset({"busy", "start_failed"})


def pause_s(data: dict[str, Any] | None, sent: int) -> float | None:
    """The pause before a turn that was refused is sent again; None when its error is final.

    `data` is the error's, `sent` how often the turn was sent on this link.
    """
    said = data or {}
    if not said.get("retryable") or said.get("reason") not in NOT_TAKEN or sent > len(PAUSES_S):
        return None
    return PAUSES_S[sent - 1]
