"""How long a server wants to be left alone, in each form in which servers say it."""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

#: limits that reset on their own, as OpenAI and Groq name them; the longest of those that are used up counts
_LIMITS: Final = ("requests", "tokens", "input-tokens", "output-tokens")
#: a duration as Go prints it: 6m0s, 1.5s, 20ms, 1h2m3s
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")


def wait_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, None when the headers do not say. `now`: Unix seconds, for a date. Keys are lower case."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    said = headers.get("retry-after", "").strip()
    seconds = _number(said)
    if seconds is not None:
        return max(0.0, seconds)
    if said:
        return _until(said, now)
    return _reset(headers)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(date: str, now: float) -> float | None:
    try:
        at = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, at - now)


def _reset(headers: Mapping[str, str]) -> float | None:
    waits = []
    for limit in _LIMITS:
        left = _number(headers.get(f"x-ratelimit-remaining-{limit}", ""))
        wait = _duration(headers.get(f"x-ratelimit-reset-{limit}", ""))
        if wait is not None and left is not None and left <= 0:
            waits.append(wait)
    return max(waits) if waits else None


def _duration(text: str) -> float | None:
    bare = _number(text)
    if bare is not None:
        return max(0.0, bare)
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
