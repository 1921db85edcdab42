"""Amounts of money as a person reads them. Two currencies are never added together. Pure."""

from collections.abc import Mapping
from typing import Final

from lembasd.link.core.faults import plain

_SIGNS: Final = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩"}
#: currencies without a smaller unit in use
_WHOLE: Final = frozenset({"JPY", "KRW", "CLP", "ISK", "VND"})
#: a longer code is none
MAX_CODE_CHARS: Final = 8
#: below a cent the digits matter that a cent hides
_CENT: Final = 0.01


def amount(currency: str, value: float) -> str:
    """One amount: "€2.00", "CHF 2.00", "$0.0004"."""
    if 0 < abs(value) < _CENT:
        digits = f"{value:.6f}".rstrip("0").rstrip(".")
        shown = digits if digits.strip("-0.") else f"{value:.0e}"
    else:
        shown = f"{value:,.{0 if currency in _WHOLE else 2}f}"
    sign = _SIGNS.get(currency)
    if sign is None:
        return f"{plain(currency, MAX_CODE_CHARS)} {shown}"
    return f"-{sign}{shown[1:]}" if shown.startswith("-") else f"{sign}{shown}"


def amounts(by_currency: Mapping[str, float]) -> str:
    """Each currency's amount: "€2.00 · $0.75"; "" when nothing was priced."""
    return " · ".join(amount(code, by_currency[code]) for code in sorted(by_currency))
