"""Where the person types: prompts, and the words of an answer."""

from typing import Final

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from lembasd.tui.core import composing, plain

#: keys that end what is typed or act on it, and mean nothing to a text
_NEW_LINE: Final = frozenset({"ctrl+j", "shift+enter", "alt+enter"})


class Composer(TextArea):
    """A text of several lines. Enter sends it."""

    DEFAULT_CSS = """
    Composer, Composer:focus {
        height: auto; max-height: 8; min-height: 1; border: none; padding: 0 1 0 0; background: transparent;
        scrollbar-size-vertical: 0;
    }
    """

    class Sent(Message):
        """Enter, or with `after` Tab, was pressed."""

        def __init__(self, text: str, *, after: bool) -> None:
            super().__init__()
            self.text = text
            self.after = after

    class Typed(Message):
        """A key was pressed here; what can be completed may be another."""

    class Completed(Message):
        """A key for the list of completions: `up`, `down` or `take`."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    class Pasted(Message):
        """The path of an image was pasted."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    def __init__(self) -> None:
        super().__init__(
            id="composer",
            compact=True,
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
        )
        self.cursor_blink = False
        self.highlight_cursor_line = False
        self.recall = composing.Recall()
        #: completions are shown: their keys are theirs
        self.completing = False
        #: there is a turn that Tab sends something after
        self.queues = False
        #: what is typed is one of them as it stands: Enter sends it
        self.is_whole = False

    @property
    def before_cursor(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def put(self, text: str) -> None:
        """Replace everything; the cursor stands at its end."""
        self.load_text(plain.typed(text))
        self.move_cursor(self.document.end)

    def complete(self, start: int, text: str) -> None:
        """Replace what stands from `start` to the cursor."""
        before = self.before_cursor
        lines = before[:start].split("\n")
        result = self.replace(text, (len(lines) - 1, len(lines[-1])), self.cursor_location)
        self.move_cursor(result.end_location)

    async def _on_key(self, event: events.Key) -> None:
        if self._takes(event.key):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)
        self.post_message(self.Typed())

    def _takes(self, key: str) -> bool:
        if self.completing and key == "enter" and self.is_whole:
            self.completing = False
        if self.completing and key in ("up", "down", "tab", "enter"):
            self.post_message(self.Completed("take" if key in ("tab", "enter") else key))
            return True
        if key in _NEW_LINE:
            self.insert("\n")
            return True
        if key == "enter":
            if self.before_cursor.endswith("\\"):
                self.action_delete_left()
                self.insert("\n")
            else:
                self._send(after=False)
            return True
        if key == "tab":
            if self.queues:
                self._send(after=True)
            return True
        if key == "up" and self.cursor_location[0] == 0:
            return self._recalled(self.recall.earlier(self.text))
        if key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            return self._recalled(self.recall.later())
        return False

    def _send(self, *, after: bool) -> None:
        """What is typed from now on belongs to the next text."""
        self.post_message(self.Sent(self.text, after=after))
        self.put("")

    def _recalled(self, text: str | None) -> bool:
        if text is not None:
            self.put(text)
        return text is not None

    async def _on_paste(self, event: events.Paste) -> None:
        path = composing.pasted_image(event.text)
        if path is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Pasted(path))
            return
        # a page may put on a clipboard what its reader does not see
        await super()._on_paste(events.Paste(plain.typed(event.text)))
        event.prevent_default()
