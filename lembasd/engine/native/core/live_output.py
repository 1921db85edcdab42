"""A running command's output: what is kept of it for the model, and what a person is shown while it runs.

Head and tail are kept; of more than that the middle is dropped as it comes.
"""

from typing import Final

from lembasd.engine.native.core.console_text import ConsoleText

#: of the output that is kept, in characters: half of it the first, half the last; what lies between is counted only
MAX_CHARS: Final = 2 * 1024 * 1024
#: of what is shown while a command runs: its last lines
SHOWN_CHARS: Final = 2000
#: the shortest time between two looks at a running command: four a second
SHOW_EVERY_S: Final = 0.25
#: after so many, a look a second must do: what a session has said is kept in a bounded ring
QUICK_LOOKS: Final = 40
SHOW_LATER_EVERY_S: Final = 1.0
_MANY_PIECES: Final = 256


class LiveOutput:
    """The output of one command, fed with what is read of it."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._half = max_chars // 2
        self._text = ConsoleText()
        self._head: list[str] = []
        self._head_chars = 0
        self._tail = ""
        self._dropped = 0
        self._looks = 0
        self._looked_at: float | None = None
        self._shown = ""

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._keep(self._text.feed(data))

    def finish(self) -> str:
        """Everything that was kept, once no more comes."""
        self._keep(self._text.finish())
        head = "".join(self._head)
        if self._dropped:
            return f"{head}\n[{self._dropped} characters left out]\n{self._tail}"
        return head + self._tail

    def _keep(self, text: str) -> None:
        room = self._half - self._head_chars
        if room > 0:
            self._head.append(text[:room])
            self._head_chars += len(self._head[-1])
            text = text[room:]
            if len(self._head) > _MANY_PIECES:  # a program that writes a character at a time
                self._head = ["".join(self._head)]
        if text:
            tail = self._tail + text
            over = max(0, len(tail) - self._half)
            self._dropped += over
            self._tail = tail[over:]

    # ── while it runs ───────────────────────────────────────────────────────────────────────────

    def next_look(self, now: float) -> float:
        """When it may be shown again, in the clock of `now`."""
        if self._looked_at is None:
            return now
        every = SHOW_EVERY_S if self._looks < QUICK_LOOKS else SHOW_LATER_EVERY_S
        return max(now, self._looked_at + every)

    def look(self, now: float) -> str | None:
        """The last lines as they stand, which replace what was shown before; None when they are the same."""
        shown = self._last_lines()
        if shown == self._shown:
            return None
        self._shown = shown
        self._looked_at = now
        self._looks += 1
        return shown

    def _last_lines(self) -> str:
        open_line = self._text.open_line
        text = self._tail[-SHOWN_CHARS - 1 :]
        pieces = [open_line, text]
        chars = len(open_line) + len(text)
        for piece in reversed(self._head):
            if chars > SHOWN_CHARS:
                break
            pieces.append(piece[-SHOWN_CHARS - 1 :])
            chars += len(pieces[-1])
        shown = "".join(reversed(pieces))
        if len(shown) <= SHOWN_CHARS:
            return shown
        _cut, newline, lines = shown[-SHOWN_CHARS - 1 :].partition("\n")
        return lines if newline and lines else shown[-SHOWN_CHARS:]
