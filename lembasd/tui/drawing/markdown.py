"""Markdown as a terminal shows it well: headings at the left, no boxes, addresses written out."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text

from lembasd.tui.drawing import palette


class _Heading(Heading):
    """A bold line. The mark tells the level without a colour too."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        mark = "#" * int(self.tag[1:])
        yield Text.assemble((f"{mark} ", palette.DIM), text, style=palette.BOLD)


class _Code(CodeBlock):
    """Code within a list or a quotation."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name or "text",
            theme=palette.syntax(),
            background_color="default",
            word_wrap=True,
        )


class _Item(ListItem):
    """A number has its dot."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        width = len(str(last_number)) + 3
        style = console.get_style("markdown.item.number")
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - width), style=self.style
        )
        for place, line in enumerate(lines):
            yield Segment(" " * width if place else f"{number}. ".rjust(width), style)
            yield from line
            yield Segment("\n")


class Prose(Markdown):
    """A block of Markdown. Links are never made ones that a terminal follows: their address is to be seen."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "list_item_open": _Item,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False, justify="left")
