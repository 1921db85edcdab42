"""The one account's personalization (link.md, The HTTP API: /v1/me/personalization). Pure."""

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

#: characters of one text; a longer one would leave a small model no room
MAX_CHARS: Final = 20_000


class NotTaken(Exception):
    """A field cannot be what it was to be; the text is a sentence."""


class Account(Struct, frozen=True):
    """Its texts; "" is nothing. While not `enabled` nothing of them counts."""

    enabled: bool = False
    personality: str = ""
    personality_custom: str = ""
    instructions: str = ""

    def shown(self) -> dict[str, Any]:
        return {**asdict(self), "available": True}

    def changed(self, fields: dict[str, Any]) -> "Account":
        """The account with these fields; the others stay, and what is none of them says nothing. Raises NotTaken."""
        known = {name: fields[name] for name in self.__struct_fields__ if name in fields}
        for name, value in known.items():
            if name == "enabled":
                if not isinstance(value, bool):
                    raise NotTaken("enabled must be true or false")
            elif not isinstance(value, str):
                raise NotTaken(f"{name} must be a text")
            elif len(value) > MAX_CHARS:
                raise NotTaken(f"{name} has at most {MAX_CHARS} characters; shorten it")
        return replace(self, **known)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode(text: bytes) -> Account:
    """Raises msgspec.MsgspecError for what was not written by `Account.encode`."""
    return msgspec.json.decode(text, type=Account)
