"""What a server says of its model: the effort levels and what each sends (harness.md, 3.2.0), the price of its tokens."""

from typing import Any

from msgspec import Struct

from lembasd.engine.native.core.reply import Usage

OFF = "off"
DEFAULT = "default"
#: a price is for so many tokens
PRICED_TOKENS = 1_000_000


class Price(Struct, frozen=True):
    """Of a million tokens each, in `currency` (an ISO 4217 code); `cached` None: as `input`."""

    currency: str
    input: float = 0.0
    output: float = 0.0
    cached: float | None = None


class ModelInfo(Struct, frozen=True):
    """What a server says of a model, in the names of harness/models/schema.json; what is absent is not known."""

    id: str
    context: int | None = None
    max_output: int | None = None
    efforts: list[str] | None = None
    default_effort: str | None = None
    thinking_switch: bool | None = None
    vision: bool | None = None
    tools: bool | None = None
    parallel: int | None = None
    single_session: bool | None = None
    name: str | None = None
    kind: str | None = None
    owned_by: str | None = None
    price: Price | None = None

    @property
    def capacity(self) -> int | None:
        """Requests that the model serves at once, None for no limit that is known."""
        return 1 if self.single_session else self.parallel


def offered(info: ModelInfo) -> list[str]:
    """The levels in their order: `off` with the switch, then the efforts; `default` where there is neither."""
    switch = [OFF] if info.thinking_switch else []
    return [*switch, *(info.efforts or [DEFAULT])]


def start(info: ModelInfo) -> str:
    """The level of a session that names none."""
    levels = offered(info)
    if info.default_effort in levels:
        return str(info.default_effort)
    return next((level for level in levels if level != OFF), levels[0])


def parameters(level: str, info: ModelInfo | None) -> dict[str, Any]:
    """What a request says for the level. A level that the model does not offer is read as its start level."""
    if info is not None and level not in offered(info):
        level = start(info)
    if level == OFF:
        return {"chat_template_kwargs": {"enable_thinking": False}}
    return {} if level == DEFAULT else {"reasoning_effort": level}


def cost(usage: Usage, price: Price | None) -> tuple[float, str] | None:
    """What a request cost: amount and currency; the server's own word first, None where nothing is known."""
    if usage.cost is not None:
        return usage.cost, "USD"
    if price is None:
        return None
    cached = price.input if price.cached is None else price.cached
    fresh = max(0, usage.input - usage.cached)
    amount = fresh * price.input + usage.cached * cached + usage.output * price.output
    return amount / PRICED_TOKENS, price.currency
