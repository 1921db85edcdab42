"""The card that waits for the person. It has the keys when it may, and never from under somebody's hands."""

from collections.abc import Callable
from typing import Final

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from lembasd.tui.core import attention
from lembasd.tui.core.cards import Card, Choice
from lembasd.tui.drawing import cards, palette, text

#: lines of a long body that a page's key moves by
_PAGE_LINES: Final = 5


class CardView(Widget, can_focus=True):
    """Title, as much of the body as there is room for, and the choices."""

    DEFAULT_CSS = """
    CardView { height: auto; padding: 0 1; display: none; border-top: solid ansi_yellow; }
    CardView:nocolor { border-top: solid; }
    """

    class Chosen(Message):
        """A choice that needs no words."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Words(Message):
        """A choice that needs words."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    class Left(Message):
        """The person goes back to typing; the card waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(id="card")
        self._clock = clock
        self.card: Card | None = None
        self._more = 0
        self._at = 0
        self._first = 0
        self._shown_at = 0.0
        self._lines: list[Strip] = []

    def show(self, card: Card | None, more: int) -> bool:
        """Show it; whether it is another one than before."""
        another = card is not self.card
        if another:
            self._at = self._first = 0
            self._shown_at = self._clock()
        self.card, self._more = card, more
        self.display = card is not None
        self._draw()
        return another and card is not None

    def _draw(self) -> None:
        if self.card is None:
            self._lines = []
            return
        width = max(20, self.app.size.width - 2)
        choices = self.card.choices
        head = cards.title(self.card, self._more, width)
        foot = [
            line
            for place, one in enumerate(choices)
            for line in cards.choice(one, width, at=self.has_focus and place == self._at)
        ]
        if not self.has_focus:
            foot = text.spans([("Ctrl-Y", palette.BOLD), (" answers it", palette.DIM)], width)
        room = max(1, self.app.size.height - len(choices) - 8)
        body = cards.body(self.card, width)
        self._first = max(0, min(self._first, len(body) - room))
        seen = body[self._first : self._first + room]
        if len(body) > room:
            place = (
                f"lines {self._first + 1} to {self._first + len(seen)} of {len(body)} (PgUp, PgDn)"
            )
            seen += text.plain(place, width, palette.DIM)
        self._lines = [*head, *seen, *foot]
        self.refresh(layout=True)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def get_content_height(self, *_about: object) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.adjust_cell_length(width)

    def scroll_body(self, direction: int) -> None:
        self._first += direction * _PAGE_LINES
        self._draw()

    def on_key(self, event: events.Key) -> None:
        if self.card is None:
            return
        choices = self.card.choices
        match event.key:
            case "escape":
                self.post_message(self.Left())
            case "up":
                self._at = (self._at - 1) % len(choices)
            case "down" | "tab":
                self._at = (self._at + 1) % len(choices)
            case "enter":
                self._take(choices[self._at])
            case key:
                found = next((one for one in choices if one.key == key), None)
                if found is None:
                    return
                self._take(found)
        event.stop()
        event.prevent_default()
        self._draw()

    def _take(self, choice: Choice) -> None:
        if not attention.counts(shown_s=self._clock() - self._shown_at):
            return
        self.post_message(self.Words(choice) if choice.asks else self.Chosen(choice.key))
