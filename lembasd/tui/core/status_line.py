"""The line that says how it stands: what is done now and for how long, and what it takes. It fits any width."""

from typing import Final, Literal

from msgspec import Struct

from lembasd.tui.core.chat import Chat

Tone = Literal["busy", "ask", "plain", "dim", "warn"]
_GAP: Final = 2
_KILO: Final = 1000
_FULL_PERCENT: Final = 80


class Part(Struct, frozen=True):
    """`worth`: parts that are worth less are left out first."""

    text: str
    tone: Tone
    worth: int


class Line(Struct, frozen=True):
    """What stands at the left and at the right."""

    left: list[Part]
    right: list[Part]


def line(chat: Chat, now: float, width: int, *, follows: bool = True) -> Line:
    """What fits of it in `width` cells. `follows`: the end of the transcript is on the screen."""
    left, right = _left(chat, now, follows=follows), _right(chat)
    while _length([*left, *right]) > width and len(left) + len(right) > 1:
        least = min([*left, *right], key=lambda one: one.worth)
        (left if least in left else right).remove(least)
    return Line(left, right)


def _length(parts: list[Part]) -> int:
    return sum(len(one.text) + _GAP for one in parts)


def _left(chat: Chat, now: float, *, follows: bool) -> list[Part]:
    activity = chat.activity
    parts: list[Part] = []
    if not chat.connected:
        parts.append(Part("not connected", "warn", 100))
    elif chat.cards:
        count = len(chat.cards)
        text = "waits for you" if count == 1 else f"{count} wait for you"
        parts.append(Part(f"? {text}", "ask", 100))
    elif activity.busy:
        parts.append(Part(f"• {activity.what} {elapsed(now - activity.since)}", "busy", 100))
    elif chat.loading:
        parts.append(Part("reading the history", "dim", 100))
    else:
        parts.append(Part("ready", "dim", 100))
    if parts[0].tone == "busy" and activity.turn_since != activity.since:
        parts.append(Part(f"turn {elapsed(now - activity.turn_since)}", "dim", 20))
    if not follows:
        parts.append(Part("more below", "warn", 60))
    return parts


def _right(chat: Chat) -> list[Part]:
    activity = chat.activity
    parts = []
    if chat.mode:
        parts.append(Part(chat.mode, "warn" if chat.mode == "auto" else "plain", 90))
    if chat.shared:
        parts.append(Part("shared", "dim", 45))
    if chat.model:
        effort = "" if chat.effort in ("", "default") else f" {chat.effort}"
        parts.append(Part(f"{chat.model}{effort}", "dim", 50))
    if activity.window and activity.context:
        percent = min(100, 100 * activity.context // activity.window)
        parts.append(
            Part(f"context {percent} %", "warn" if percent >= _FULL_PERCENT else "dim", 70)
        )
    if activity.read or activity.written:
        parts.append(Part(f"↑{tokens(activity.read)} ↓{tokens(activity.written)}", "dim", 30))
    if activity.cost:
        parts.append(Part(activity.cost, "dim", 35))
    if chat.month:
        parts.append(Part(f"month {chat.month}", "dim", 40))
    return parts


def elapsed(seconds: float) -> str:
    """A time as a person reads it: "4 s", "1:05", "2:00:09"."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def tokens(count: int) -> str:
    """ "873", "12.3k", "1.2M"."""
    if count < _KILO:
        return str(count)
    if count < _KILO * _KILO:
        return f"{count / _KILO:.1f}k"
    return f"{count / _KILO / _KILO:.1f}M"
