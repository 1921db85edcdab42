"""The settings that an account has in the place of the device's own, while somebody is logged in."""

from typing import Any

from lembasd.cli import logged_in
from lembasd.device.paths import Paths
from lembasd.link.core import personalization


async def effective(paths: Paths, local: dict[str, Any]) -> dict[str, Any]:
    """What counts of each of `personalization.FIELDS`. Raises what `logged_in` and the API do."""
    login = logged_in.find(paths)
    if login is None:
        return personalization.effective(None, local)
    async with logged_in.api(login) as api:
        values = personalization.effective(await api.personalization(), local)
    return {name: _shown(value) if value else value for name, value in values.items()}


async def is_accounts(paths: Paths) -> bool:
    """Whether the account's count. Raises as `effective`."""
    login = logged_in.find(paths)
    if login is None:
        return False
    async with logged_in.api(login) as api:
        return personalization.has_account(await api.personalization())


def _shown(text: str) -> str:
    """A text of the account's with its lines, and nothing in it that moves a cursor."""
    return "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)


async def change(paths: Paths, name: str, value: str | None) -> str | None:
    """Set the account's; its server, or None where the device's own is to be set. Raises as `effective`."""
    login = logged_in.find(paths)
    if login is None:
        return None
    async with logged_in.api(login) as api:
        if not personalization.has_account(await api.personalization()):
            return None
        await api.personalize(name, value)
        return api.server
