"""The instance's HTTP API (link.md, The HTTP API the CLI uses): what the device reads of its answers."""

from msgspec import Struct

from lembasd.protocol import context


class Person(Struct, frozen=True):
    """Whose account it is."""

    email: str = ""
    name: str = ""


class InstanceInfo(Struct, frozen=True):
    """`GET /api/v1/instance`. `scope` is what the token may do, space-separated; None from an older server."""

    service: str = ""
    version: str = ""
    name: str = ""
    connection: str | None = None
    account: Person | None = None
    scope: str | None = None
    default_model: str | None = None


# `from` is a word of Python's
class MonthUse(Struct, frozen=True, rename={"since": "from"}):
    """`cost_money` is the cost where one currency is involved, else None."""

    since: str | float | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost_money: float | None = None
    cost_by_currency: dict[str, float] = {}


class DeviceUse(Struct, frozen=True):
    """This device's part of the month."""

    tokens_in: int = 0
    tokens_out: int = 0


class Usage(Struct, frozen=True):
    """`GET /v1/usage`, without what is sent for 1.x clients alone."""

    month: MonthUse
    device: DeviceUse = DeviceUse()
    currency: str | None = None
    admin: bool = False


class Personalization(Struct, frozen=True):
    """`GET` and `PUT /v1/me/personalization`: the account's, used in place of the device's own while `available`."""

    enabled: bool = False
    available: bool = False
    personality: str | None = None
    personality_custom: str | None = None
    instructions: str | None = None

    @property
    def in_place(self) -> context.Personalization | None:
        """What counts in place of the device's own; None: the device's own counts."""
        if not self.available:
            return None
        if not self.enabled:
            return context.Personalization()
        return context.Personalization(
            self.personality or None, self.personality_custom or None, self.instructions or None
        )
