"""When a card may take the keys: never from under the hands of somebody who is typing."""

from typing import Final

#: seconds without a key after which a card that comes up may have the keys
QUIET_S: Final = 0.7
#: seconds that a card must have been on the screen before a key counts as an answer to it
SEEN_S: Final = 0.3


def may_take_keys(*, typed: str, quiet_s: float) -> bool:
    """Whether a card that comes up gets the keys. `typed`: what stands in the line; `quiet_s`: since the last key."""
    return not typed and quiet_s >= QUIET_S


def counts(*, shown_s: float) -> bool:
    """Whether a key is an answer to a card that has been shown so long."""
    return shown_s >= SEEN_S
