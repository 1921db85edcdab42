"""Text as strips: wrapped to a width, in one style or as Markdown and code."""

from collections.abc import Sequence
from functools import cache
from io import StringIO
from typing import Final

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from lembasd.tui.core.blocks import Block
from lembasd.tui.drawing import palette

_WARM_WIDTH: Final = 20


@cache
def _console() -> Console:
    """It draws and never writes."""
    return Console(
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        theme=Theme(palette.MARKDOWN),
        markup=False,
        emoji=False,
        highlight=False,
    )


def warm() -> None:
    """Load what draws Markdown and code, for the first answer not to wait for it."""
    block(Block("*a*"), _WARM_WIDTH)
    code("x = 1", "python", _WARM_WIDTH)


def strips(what: RenderableType, width: int) -> list[Strip]:
    """What Rich makes of it, a strip a line."""
    console = _console()
    options = console.options.update(width=max(1, width), height=None, highlight=False)
    return [Strip(line) for line in console.render_lines(what, options, pad=False)]


def plain(text: str, width: int, style: Style = palette.PLAIN) -> list[Strip]:
    """Lines of text, wrapped at words."""
    if text.isascii() and all(len(line) <= width for line in text.split("\n")):
        return [Strip([Segment(line, style)], len(line)) for line in text.split("\n")]
    return strips(Text(text, style=style, overflow="fold"), width)


def spans(parts: Sequence[tuple[str, Style]], width: int, *, wrap: bool = False) -> list[Strip]:
    """Pieces of one text, each with its style: one line that is cut with an ellipsis, or as many as it takes."""
    text = Text.assemble(*parts, overflow="fold" if wrap else "ellipsis", no_wrap=not wrap)
    return strips(text, width)


def indented(lines: list[Strip], by: int, mark: Strip | None = None) -> list[Strip]:
    """The lines further to the right; `mark` stands before the first."""
    space = Strip([Segment(" " * by)], by)
    return [Strip.join([mark if mark and not at else space, line]) for at, line in enumerate(lines)]


def block(what: Block, width: int) -> list[Strip]:
    """A block of Markdown or of code."""
    if what.language is None:
        return _trimmed(strips(_markdown(what.text), width))
    return indented(code(what.text, what.language, width - 2), 2)


def code(text: str, language: str, width: int) -> list[Strip]:
    """Highlighted, and wrapped rather than cut."""
    from rich.syntax import Syntax

    drawn = strips(
        Syntax(
            text,
            language or "text",
            theme=palette.syntax(),
            background_color="default",
            word_wrap=True,
        ),
        width,
    )
    return _trimmed(drawn)


def diff(text: str, width: int) -> list[Strip]:
    """A unified diff in colours."""
    lines: list[Strip] = []
    for line in text.split("\n"):
        lines += plain(line, width, _diff_style(line))
    return lines


def _diff_style(line: str) -> Style:
    if line.startswith(("+++", "---")):
        return palette.BOLD
    return {"+": palette.ADDED, "-": palette.REMOVED, "@": palette.HUNK}.get(
        line[:1], palette.PLAIN
    )


def _trimmed(lines: list[Strip]) -> list[Strip]:
    """Without empty lines at both ends, and without the spaces that fill a line."""
    lines = [Strip(_without_fill(list(line))) for line in lines]
    while lines and not lines[-1].text.strip():
        lines.pop()
    begins = next((at for at, line in enumerate(lines) if line.text.strip()), 0)
    return lines[begins:]


def _without_fill(segments: list[Segment]) -> list[Segment]:
    while segments and not segments[-1].text.strip():
        segments.pop()
    return segments


def _markdown(text: str) -> RenderableType:
    from lembasd.tui.drawing.markdown import Prose

    return Prose(text)
