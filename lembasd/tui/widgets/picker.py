"""A list to choose from, with a line that narrows it down."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input

from lembasd.tui.drawing import palette, text
from lembasd.tui.widgets.lines import Lines

_FRAME_ROWS: Final = 4


class Item(Struct, frozen=True):
    """`value` is what is chosen; `label` and `about` are what is seen and searched."""

    value: str
    label: str
    about: str = ""

    def has(self, words: Sequence[str]) -> bool:
        seen = f"{self.label} {self.about} {self.value}".lower()
        return all(word in seen for word in words)


#: looks further for what is typed than the items' labels. Raises nothing
Search = Callable[[str], Awaitable[list[Item]]]


class Picker(ModalScreen[str | None]):
    """Dismissed with the value, or None."""

    CSS = """
    Picker { background: transparent; align: center bottom; }
    Picker Input { border: none; height: 1; padding: 0 1; background: transparent; }
    Picker #title { padding: 0 1; }
    """

    def __init__(self, title: str, typed: str = "", search: Search | None = None) -> None:
        super().__init__()
        self._search = search
        #: what a search has found beside, for what is typed now
        self._beside: list[Item] = []
        self._title = title
        self._items: list[Item] | None = None
        self._typed = typed
        self._at = 0

    def compose(self) -> ComposeResult:
        yield Lines("title", self._heading, most=1)
        yield Input(value=self._typed, placeholder="type to search", compact=True)
        yield Lines("items", self._rows, most=200)

    def on_mount(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self._show()

    def fill(self, items: Sequence[Item]) -> None:
        """The items have come."""
        self._items = list(items)
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        for one in self.query(Lines):
            one.show()

    @property
    def _found(self) -> list[Item]:
        words = self.query_one(Input).value.lower().split()
        found = [one for one in self._items or [] if one.has(words)]
        known = {one.value for one in found}
        return found + [one for one in self._beside if one.value not in known]

    def _heading(self, width: int) -> list[Strip]:
        return text.spans(
            [(self._title, palette.BOLD), ("   Enter opens, Esc leaves", palette.DIM)], width
        )

    def _rows(self, width: int) -> list[Strip]:
        found = self._found
        if not found:
            said = "looking" if self._items is None else "there is none"
            return text.plain(said, width, palette.DIM)
        room = max(1, self.app.size.height - _FRAME_ROWS)
        first = max(0, min(self._at - room // 2, len(found) - room))
        lines: list[Strip] = []
        for place, one in enumerate(found[first : first + room], first):
            style = palette.CHOSEN if place == self._at else palette.PLAIN
            parts = [(one.label, style), (f"  {one.about}" if one.about else "", palette.DIM)]
            lines += text.spans(parts, width)
        return lines

    def on_input_changed(self, changed: Input.Changed) -> None:
        self._at, self._beside = 0, []
        self._show()
        if self._search is not None and changed.value.strip():
            # the one before is not waited for any more
            self.run_worker(self._look(changed.value), exclusive=True)

    async def _look(self, typed: str) -> None:
        if self._search is not None:
            self._beside = await self._search(typed)
            self._show()

    def on_key(self, event: events.Key) -> None:
        found = self._found
        match event.key:
            case "escape" | "ctrl+c":
                self.dismiss(None)
            case "down":
                self._at = min(len(found) - 1, self._at + 1)
            case "up":
                self._at = max(0, self._at - 1)
            case "pagedown":
                self._at = min(len(found) - 1, self._at + 10)
            case "pageup":
                self._at = max(0, self._at - 10)
            case "enter":
                if found:
                    self.dismiss(found[self._at].value)
            case _:
                return
        event.stop()
        event.prevent_default()
        self._show()
