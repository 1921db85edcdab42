"""The transcript: of a long one only what is seen is ever drawn."""

from collections import OrderedDict
from typing import Final

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from lembasd.tui.core.entries import Call, Entry, Reply
from lembasd.tui.core.transcript import Transcript
from lembasd.tui.core.viewport import Viewport
from lembasd.tui.drawing import palette
from lembasd.tui.drawing.entries import Drawing, joins

#: drawn entries that are kept for when they are seen again; the rest is drawn anew
MAX_DRAWINGS: Final = 400
#: lines of one turn of a mouse's wheel
WHEEL_LINES: Final = 3
#: until the rest of a long reply is drawn
_GO_ON_S: Final = 0.03
_EMPTY: Final = Strip([])


class TranscriptView(Widget, can_focus=True):
    """Follows the end until somebody scrolls. With the focus the calls can be gone through."""

    DEFAULT_CSS = "TranscriptView { height: 1fr; padding: 0 1; }"

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(id="transcript")
        self.transcript = transcript
        self.viewport = Viewport()
        self.thoughts_opened = False
        self._opened: set[int] = set()
        self._chosen: int | None = None
        #: of the entries that were seen lately, by their numbers
        self.drawings: OrderedDict[int, Drawing] = OrderedDict()
        self._generation = transcript.generation
        self._screen_lines: list[tuple[Strip, int]] | None = None

    # ── what is shown ───────────────────────────────────────────────────────────────────────────

    def show(self, transcript: Transcript) -> None:
        """Draw what has changed."""
        if transcript is not self.transcript or transcript.generation != self._generation:
            self.transcript, self._generation = transcript, transcript.generation
            self.drawings.clear()
            self._opened.clear()
            self._chosen = None
            self.viewport = Viewport()
        self._redraw()

    @property
    def follows(self) -> bool:
        return self.viewport.follows

    def scroll_lines(self, by: int) -> None:
        self.viewport.scroll(by, len(self.transcript.entries), self._rows, self._height)
        self._redraw()

    def scroll_page(self, direction: int) -> None:
        self.scroll_lines(direction * max(1, self._rows - 2))

    def to_start(self) -> None:
        self.viewport.to_start()
        self._redraw()

    def to_end(self) -> None:
        self.viewport.to_end()
        self._redraw()

    def toggle_thoughts(self) -> None:
        self.thoughts_opened = not self.thoughts_opened
        self._redraw()

    # ── calls ───────────────────────────────────────────────────────────────────────────────────

    def choose(self, step: int) -> None:
        """Go to the call before (-1) or after (1) the chosen one; without one to the last."""
        entries = self.transcript.entries
        calls = [at for at, one in enumerate(entries) if isinstance(one, Call)]
        if not calls:
            return
        numbers = [entries[at].number for at in calls]
        if self._chosen in numbers:
            at = min(len(calls) - 1, max(0, numbers.index(self._chosen) + step))
        else:
            at = len(calls) - 1
        self._chosen = numbers[at]
        self.viewport.show(calls[at], len(entries), self._rows, self._height)
        self._redraw()

    def toggle(self, number: int | None = None) -> None:
        """Open a call, or close it; without a number the chosen one."""
        number = self._chosen if number is None else number
        if number is not None:
            self._opened ^= {number}
            self._redraw()

    def on_focus(self) -> None:
        self._chosen = None
        self.choose(0)

    def on_blur(self) -> None:
        self._chosen = None
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        lines = self._lines()
        if event.y < len(lines):
            number = lines[event.y][1]
            entry = next((one for one in self.transcript.entries if one.number == number), None)
            if isinstance(entry, Call) or (isinstance(entry, Reply) and entry.thought):
                self.toggle(number)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-WHEEL_LINES)

    # ── drawing ─────────────────────────────────────────────────────────────────────────────────

    @property
    def _rows(self) -> int:
        return max(1, self.content_size.height)

    def _redraw(self) -> None:
        self._screen_lines = None
        self.refresh()

    def _go_on(self) -> None:
        for one in self.drawings.values():
            one.go_on()
        self._redraw()

    def on_resize(self) -> None:
        self.drawings.clear()
        self._redraw()

    def _height(self, index: int) -> int:
        return len(self._draw(index))

    def _draw(self, index: int) -> list[Strip]:
        """The lines of an entry, with the empty one before it."""
        entries = self.transcript.entries
        entry = entries[index]
        drawing = self.drawings.get(entry.number)
        width = max(10, self.content_size.width)
        if drawing is None or drawing.width != width:
            drawing = self.drawings[entry.number] = Drawing(entry, width)
            if len(self.drawings) > max(MAX_DRAWINGS, 2 * self._rows):
                self.drawings.popitem(last=False)
        else:
            self.drawings.move_to_end(entry.number)
        lines = drawing.lines(opened=self._is_opened(entry))
        if index and not joins(entry, entries[index - 1]):
            return [_EMPTY, *lines]
        return lines

    def _is_opened(self, entry: Entry) -> bool:
        toggled = entry.number in self._opened
        if isinstance(entry, Reply) and entry.thought:
            return toggled != self.thoughts_opened
        return toggled

    def _lines(self) -> list[tuple[Strip, int]]:
        """The screen's lines, each with the number of its entry."""
        if self._screen_lines is None:
            entries = self.transcript.entries
            found: list[tuple[Strip, int]] = []
            for piece in self.viewport.pieces(len(entries), self._rows, self._height):
                number = entries[piece.index].number
                lines = self._draw(piece.index)[piece.first : piece.first + piece.count]
                found += [(line, number) for line in lines]
            self._screen_lines = found
            seen = {number for _, number in found}
            if any(one.is_behind for number, one in self.drawings.items() if number in seen):
                self.set_timer(_GO_ON_S, self._go_on)
        return self._screen_lines

    def render_line(self, y: int) -> Strip:
        lines = self._lines()
        if y >= len(lines):
            return Strip.blank(self.content_size.width)
        strip, number = lines[y]
        if number == self._chosen and strip.text.strip():
            strip = Strip([Segment("▌", palette.ASK), *strip])
        return strip.adjust_cell_length(self.content_size.width)
