"""What the word that is being typed may become."""

from typing import Final

from msgspec import Struct
from textual.strip import Strip

from lembasd.tui.drawing import palette, text
from lembasd.tui.widgets.lines import Lines

#: of them on the screen at once
_ROWS: Final = 8


class Completion(Struct, frozen=True):
    """`text` takes the place of the word; `label` and `about` are what is seen."""

    text: str
    label: str
    about: str = ""


class Completions(Lines):
    """A list of them, one of which Enter takes."""

    def __init__(self) -> None:
        super().__init__("completions", self._rows, most=_ROWS)
        self.found: list[Completion] = []
        self._at = 0

    def fill(self, found: list[Completion]) -> None:
        """Show these; none takes no room."""
        self.found, self._at = found, 0
        self.show()

    def step(self, by: int) -> None:
        if self.found:
            self._at = (self._at + by) % len(self.found)
            self.show()

    @property
    def chosen(self) -> Completion | None:
        return self.found[self._at] if self.found else None

    def _rows(self, width: int) -> list[Strip]:
        first = max(0, self._at - _ROWS + 1)
        lines: list[Strip] = []
        for place, one in enumerate(self.found[first : first + _ROWS], first):
            style = palette.CHOSEN if place == self._at else palette.PLAIN
            about = f"  {one.about}" if one.about else ""
            lines += text.spans([(one.label, style), (about, palette.DIM)], width)
        return lines
