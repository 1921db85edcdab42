"""A few lines that others draw."""

from collections.abc import Callable

from textual.strip import Strip
from textual.widget import Widget


class Lines(Widget):
    """As high as what is drawn; nothing drawn takes no room. `draw`: the lines for a width."""

    DEFAULT_CSS = "Lines { height: auto; padding: 0 1; display: none; }"

    def __init__(self, name: str, draw: Callable[[int], list[Strip]], *, most: int) -> None:
        super().__init__(id=name)
        self._draw = draw
        self._most = most
        self._lines: list[Strip] = []
        self._drawn_for = 0

    def show(self) -> None:
        """Draw anew."""
        width = self._width
        lines = self._draw(width)[: self._most] if width > 0 else []
        changed = len(lines) != len(self._lines)
        self._lines, self._drawn_for = lines, width
        self.display = bool(lines)
        self.refresh(layout=changed)

    @property
    def _width(self) -> int:
        # not shown it has no size of its own
        return (self.content_size.width if self.display else 0) or self.app.size.width - 2

    def on_resize(self) -> None:
        if self._drawn_for != self._width:
            self.show()

    def get_content_height(self, *_about: object) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        if y >= len(self._lines):
            return Strip.blank(width)
        return self._lines[y].adjust_cell_length(width)
