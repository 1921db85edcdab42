"""The styles. Colours are the terminal's own, so that a person's scheme decides; without colours the rest still tells."""

from functools import cache
from typing import TYPE_CHECKING, Final

from rich.style import Style

if TYPE_CHECKING:
    from rich.syntax import ANSISyntaxTheme

PLAIN: Final = Style()
DIM: Final = Style(dim=True)
BOLD: Final = Style(bold=True)
PROMPT: Final = Style(color="cyan", bold=True)
BUSY: Final = Style(color="cyan")
GOOD: Final = Style(color="green")
BAD: Final = Style(color="red")
WARN: Final = Style(color="yellow")
ASK: Final = Style(color="yellow", bold=True)
CODE: Final = Style(color="cyan")
ADDED: Final = Style(color="green")
REMOVED: Final = Style(color="red")
HUNK: Final = Style(color="cyan")
CHOSEN: Final = Style(reverse=True)

#: of the Markdown of agents, by the names that Rich gives to its parts
MARKDOWN: Final = {
    "markdown.paragraph": PLAIN,
    "markdown.text": PLAIN,
    "markdown.em": Style(italic=True),
    "markdown.emph": Style(italic=True),
    "markdown.strong": BOLD,
    "markdown.s": Style(strike=True),
    "markdown.code": CODE,
    "markdown.code_block": PLAIN,
    "markdown.block_quote": DIM,
    "markdown.list": PLAIN,
    "markdown.item": PLAIN,
    "markdown.item.bullet": BUSY,
    "markdown.item.number": BUSY,
    "markdown.hr": DIM,
    "markdown.link": Style(underline=True),
    "markdown.link_url": Style(underline=True, dim=True),
    "markdown.table.border": DIM,
    "markdown.table.header": BOLD,
    **{f"markdown.h{level}": BOLD for level in range(1, 7)},
}


@cache
def syntax() -> "ANSISyntaxTheme":
    """Colours of code. Imported when the first code is drawn."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, String
    from rich.syntax import ANSISyntaxTheme

    return ANSISyntaxTheme(
        {
            Comment: Style(dim=True, italic=True),
            Keyword: Style(color="magenta"),
            Operator.Word: Style(color="magenta"),
            Name.Function: Style(color="blue"),
            Name.Class: Style(color="blue", bold=True),
            Name.Decorator: Style(color="yellow"),
            Name.Tag: Style(color="blue"),
            Name.Attribute: Style(color="cyan"),
            String: Style(color="green"),
            Number: Style(color="cyan"),
        }
    )
