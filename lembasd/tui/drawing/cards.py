"""A card as lines."""

from textual.strip import Strip

from lembasd.tui.core.cards import Card, Choice, Part
from lembasd.tui.drawing import palette, text


def body(card: Card, width: int) -> list[Strip]:
    """What is asked about."""
    lines: list[Strip] = []
    for part in card.body:
        lines += _part(part, width)
    return lines


def _part(part: Part, width: int) -> list[Strip]:
    match part.style:
        case "code":
            return text.code(part.text, "bash", width)
        case "diff":
            return text.diff(part.text, width)
        case "markdown":
            from lembasd.tui.drawing.markdown import Prose

            return text.strips(Prose(part.text), width)
        case _:
            return text.plain(part.text, width)


def title(card: Card, more: int, width: int) -> list[Strip]:
    """What kind of card it is; `more` wait behind it."""
    behind = f"  (+{more} more)" if more else ""
    return text.spans([(f"? {card.title}", palette.ASK), (behind, palette.DIM)], width)


def choice(one: Choice, width: int, *, at: bool) -> list[Strip]:
    """A choice; `at`: Enter takes it."""
    box = "" if one.chosen is None else "[x] " if one.chosen else "[ ] "
    style = palette.CHOSEN if at else palette.PLAIN
    return text.spans([(f" {one.key} ", palette.BOLD), (f"{box}{one.label}", style)], width)
