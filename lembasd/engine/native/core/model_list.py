"""What a server's list of models says of one: in the names of harness/models/schema.json, else in those of real servers.

An entry is somebody's JSON: what has another shape than expected is passed over, field by field.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lembasd.engine.native.core.levels import PRICED_TOKENS, ModelInfo, Price

#: of a window or a reply; more is no number of tokens
MAX_TOKENS: Final = 1_000_000_000
#: names of the window's length: ours, then vLLM's, OpenRouter's, and within `meta` llama-server's
_WINDOWS: Final = ("context", "max_model_len", "context_length")


def find(listed: Any, model: str) -> ModelInfo | None:
    """The entry of the model in an answer to GET /v1/models, None when there is none."""
    entries = listed.get("data") if isinstance(listed, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            return read(entry)
    return None


def read(entry: Mapping[str, Any]) -> ModelInfo:
    """One entry."""
    efforts = entry.get("efforts")
    return ModelInfo(
        id=str(entry.get("id", "")),
        context=next(_windows(entry), None),
        max_output=_tokens(entry.get("max_output"))
        or _tokens(_inner(entry, "top_provider").get("max_completion_tokens")),
        efforts=[one for one in efforts if isinstance(one, str)]
        if isinstance(efforts, list)
        else None,
        default_effort=_text(entry.get("default_effort")),
        thinking_switch=_flag(entry.get("thinking_switch")),
        vision=_flag(entry.get("vision"), _among("image", _inner(entry, "architecture"))),
        tools=_flag(entry.get("tools"), _has("tools", entry.get("supported_parameters"))),
        parallel=_tokens(entry.get("parallel")),
        single_session=_flag(entry.get("single_session")),
        name=_text(entry.get("name")),
        kind=_text(entry.get("kind")),
        owned_by=_text(entry.get("owned_by")),
        price=_price(entry.get("price")) or _per_token(entry.get("pricing")),
    )


def _windows(entry: Mapping[str, Any]) -> Iterator[int]:
    values = [entry.get(name) for name in _WINDOWS]
    for value in (*values, _inner(entry, "meta").get("n_ctx")):
        tokens = _tokens(value)
        if tokens is not None:
            yield tokens


def _inner(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def _tokens(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value <= MAX_TOKENS else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _flag(value: Any, otherwise: bool | None = None) -> bool | None:
    return value if isinstance(value, bool) else otherwise


def _has(word: str, words: Any) -> bool | None:
    """Whether a list of words has it; None where there is no list."""
    return word in words if isinstance(words, list) and words else None


def _among(kind: str, architecture: Mapping[str, Any]) -> bool | None:
    return _has(kind, architecture.get("input_modalities"))


def _price(value: Any) -> Price | None:
    if not isinstance(value, dict):
        return None
    currency = _text(value.get("currency"))
    if currency is None:
        return None
    amounts = [_amount(value.get(name)) for name in ("input", "output", "cached")]
    return Price(currency, amounts[0] or 0.0, amounts[1] or 0.0, amounts[2])


def _per_token(value: Any) -> Price | None:
    """OpenRouter's: US dollars for one token, as text."""
    if not isinstance(value, dict):
        return None
    amounts = [_amount(value.get(name)) for name in ("prompt", "completion", "input_cache_read")]
    if amounts[0] is None or amounts[1] is None:
        return None
    dollars = [None if one is None else one * PRICED_TOKENS for one in amounts]
    return Price("USD", dollars[0] or 0.0, dollars[1] or 0.0, dollars[2])


def _amount(value: Any) -> float | None:
    """A price; what is negative, or no number, says nothing."""
    try:
        amount = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError, OverflowError):
        return None
    return amount if 0 <= amount < MAX_TOKENS else None
