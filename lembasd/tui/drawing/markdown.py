"""Markdown as a terminal shows it well: headings at the left, no boxes, addresses written out."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
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


class Prose(Markdown):
    """A block of Markdown. Links are never made ones that a terminal follows: their address is to be seen."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False, justify="left")
