"""Ages and sizes as a person writes them: `30d`, `12h`, `10GB`, `500 MB`."""

import re
from typing import Final

_NEVER: Final = "never"
#: a hundred years; what is longer is a mistake
MAX_AGE_S: Final = 100 * 365 * 86_400.0
_AGES: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
#: decisions.md, wire 6: MB is a million bytes
_SIZES: Final = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_AMOUNT: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([A-Za-z]+)")


def read_age(text: str) -> float | None:
    """Seconds of an age; None for `never`. Raises ValueError with what was expected."""
    if text == _NEVER:
        return None
    found = _AMOUNT.fullmatch(text.strip())
    unit = _AGES.get(found[2]) if found else None
    if found is None or unit is None or not 0 < float(found[1]) * unit <= MAX_AGE_S:
        raise ValueError("an age, as 30d, 12h or never")
    return float(found[1]) * unit


def read_size(text: str) -> int:
    """Bytes of a size. Raises ValueError with what was expected."""
    found = _AMOUNT.fullmatch(text.strip())
    unit = _SIZES.get(found[2].lower()) if found else None
    if found is None or unit is None:
        raise ValueError("a size, as 10GB or 500MB")
    return round(float(found[1]) * unit)


def say_age(seconds: float | None) -> str:
    """An age as `read_age` reads it, in the largest unit that says it whole."""
    if seconds is None:
        return _NEVER
    for unit in ("d", "h"):
        if seconds % _AGES[unit] == 0:
            return f"{seconds / _AGES[unit]:g}{unit}"
    return f"{seconds / _AGES['m']:g}m"


def say_size(count: int) -> str:
    """A number of bytes for a person, rounded."""
    for unit in ("TB", "GB", "MB", "kB"):
        amount = count / _SIZES[unit.lower()]
        if amount >= 1:
            return (
                f"{amount:.1f} {unit}".replace(".0 ", " ")
                if amount < 100
                else f"{amount:.0f} {unit}"
            )
    return f"{count} B"


def write_size(count: int) -> str:
    """A number of bytes as `read_size` reads it, exactly."""
    for unit in ("TB", "GB", "MB", "kB"):
        size = _SIZES[unit.lower()]
        if count >= size and count % (size // 10) == 0:
            return f"{count / size:g}{unit}"
    return f"{count}B"
