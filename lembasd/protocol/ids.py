"""The shapes of the ids that this project gives out. Making one takes randomness, which comes in as bytes."""

import re
from typing import Final

_SESSION: Final = re.compile(r"ses_[0-9a-z]{26}")
_TERMINAL: Final = re.compile(r"term_[0-9a-z]{12}")
_ALPHABET: Final = (
    "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no letter is mistaken for another
)

SESSION_RANDOM_BYTES: Final = 17
TERMINAL_RANDOM_BYTES: Final = 8


def _base32(random: bytes, length: int) -> str:
    number = int.from_bytes(random, "big")
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in range(length))


def session_id(random: bytes) -> str:
    """`ses_` and 26 characters, of SESSION_RANDOM_BYTES random bytes."""
    return "ses_" + _base32(random, 26)


def terminal_id(random: bytes) -> str:
    """`term_` and 12 characters, of TERMINAL_RANDOM_BYTES random bytes."""
    return "term_" + _base32(random, 12)


def is_session_id(text: str) -> bool:
    """Whether `text` may name a session; nothing else ever becomes part of a path."""
    return _SESSION.fullmatch(text) is not None


def is_terminal_id(text: str) -> bool:
    return _TERMINAL.fullmatch(text) is not None


def card_id(session: str, epoch: int, number: int) -> str:
    """The JSON-RPC id of what a worker asks a client: `<session>:<epoch>:<n>` (architecture.md, Ids)."""
    return f"{session}:{epoch}:{number}"


def session_of_card(reply_id: str) -> str:
    """The session whose worker asked with this id; "" when the id is none of ours."""
    session = reply_id.partition(":")[0]
    return session if is_session_id(session) else ""
