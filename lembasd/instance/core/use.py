"""What the present month took, by device and currency (link.md, The HTTP API: GET /v1/usage). Pure.

Only the present month is kept; a new one begins from nothing.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.instance.core.meter import Taken

#: devices counted by themselves; the one that was counted first goes for a new one, its part of the month stays
MAX_DEVICES: Final = 256
#: currencies; a server that names more is out of its mind, and what it names is left out
MAX_CURRENCIES: Final = 32


class Tokens(Struct):
    """Tokens read and written."""

    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, taken: Taken) -> None:
        self.tokens_in += taken.tokens_in
        self.tokens_out += taken.tokens_out


class Month(Struct):
    """`name` is "2026-11"; the amounts of different currencies are never added together."""

    name: str = ""
    all: Tokens = msgspec.field(default_factory=Tokens)
    devices: dict[str, Tokens] = {}
    cost: dict[str, float] = {}


class Use:
    """The present month. `month` in each call is the month it is now, as "2026-11"."""

    def __init__(self, kept: Month | None = None) -> None:
        self._month = kept or Month()

    def _now(self, month: str) -> Month:
        if self._month.name != month:
            self._month = Month(month)
        return self._month

    def add(self, month: str, device: str, taken: Taken) -> None:
        """A device's answer took this."""
        now = self._now(month)
        now.all.add(taken)
        if device not in now.devices and len(now.devices) >= MAX_DEVICES:
            del now.devices[next(iter(now.devices))]
        now.devices.setdefault(device, Tokens()).add(taken)
        if taken.cost is not None:
            amount, currency = taken.cost
            if currency in now.cost or len(now.cost) < MAX_CURRENCIES:
                now.cost[currency] = now.cost.get(currency, 0.0) + amount

    def shown(self, month: str, device: str) -> dict[str, Any]:
        """The answer to a device. What the spec sends for 1.x clients alone is null."""
        now = self._now(month)
        own = now.devices.get(device, Tokens())
        currency = next(iter(now.cost)) if len(now.cost) == 1 else None
        return {
            "month": {
                "from": f"{month}-01T00:00:00Z",
                "tokens_in": now.all.tokens_in,
                "tokens_out": now.all.tokens_out,
                "cost_money": now.cost[currency] if currency is not None else None,
                "cost_by_currency": dict(now.cost),
                "cost": None,
            },
            "device": {
                "tokens_in": own.tokens_in,
                "tokens_out": own.tokens_out,
                "cost": None,
                "cost_money": None,
            },
            "currency": currency,
            "admin": True,
            "unit": "money",
            "plan": None,
            "balance": None,
            "balance_money": None,
            "windows": [],
        }

    def encode(self) -> bytes:
        return msgspec.json.encode(self._month)


def decode(text: bytes) -> Use:
    """Raises msgspec.MsgspecError for what was not written by `Use.encode`."""
    return Use(msgspec.json.decode(text, type=Month))
