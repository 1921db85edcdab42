"""Whose personalization counts: the account's where the instance has it available, else the device's own. Pure."""

from typing import Any, Final

from lembasd.protocol.http_api import Personalization

#: settings of config.yaml that an account can have in their place
FIELDS: Final = ("personality", "personality_custom", "instructions")


def has_account(account: Personalization | None) -> bool:
    """Whether the account's count; None is an instance without personalization, or no login."""
    return account is not None and account.available


def effective(account: Personalization | None, local: dict[str, str | None]) -> dict[str, Any]:
    """What counts of each field, None for nothing. `local` has the values of config.yaml."""
    in_place = None if account is None else account.in_place
    if in_place is None:
        return {name: local.get(name) or None for name in FIELDS}
    return {name: getattr(in_place, name) for name in FIELDS}


def change(name: str, value: str | None) -> dict[str, Any]:
    """The body of a PUT: the one field and `enabled`, so that the instance keeps what it has of the others."""
    return {name: value or "", "enabled": True}
