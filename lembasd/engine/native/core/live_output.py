"""A running command's output: what is kept of it for the model, and what a person is shown while it runs.

Head and tail are kept; of more than that the middle is dropped as it comes.
"""

from itertools import chain
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
#: more are put together: a program that writes a character at a time must not cost an object for each
_MANY_PIECES: Final = 1024


class LiveOutput:
    """The output of one command, fed with what is read of it."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._half = max_chars // 2
        self._text = ConsoleText()
        self._head: list[str] = []
        self._head_chars = 0
        self._tail: list[str] = []
        self._tail_chars = 0
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
        self._cut_tail()
        head, tail = "".join(self._head), "".join(self._tail)
        if self._dropped:
            return f"{head}\n[{self._dropped} characters left out]\n{tail}"
        return head + tail

    def _keep(self, text: str) -> None:
        room = self._half - self._head_chars
        if room > 0:
            self._head.append(text[:room])
            self._head_chars += len(self._head[-1])
            text = text[room:]
            _join_many(self._head)
        if text:
            self._tail.append(text)
            self._tail_chars += len(text)
            # twice as much is let come before it is cut: cutting copies it
            if self._tail_chars > 2 * self._half:
                self._cut_tail()
            _join_many(self._tail)

    def _cut_tail(self) -> None:
        over = self._tail_chars - self._half
        if over > 0:
            self._tail = ["".join(self._tail)[over:]]
            self._tail_chars -= over
            self._dropped += over

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
        pieces, chars = [open_line], len(open_line)
        for piece in chain(reversed(self._tail), reversed(self._head)):
            if chars > SHOWN_CHARS:
                break
            pieces.append(piece[-SHOWN_CHARS - 1 :])
            chars += len(pieces[-1])
        shown = "".join(reversed(pieces))
        if len(shown) <= SHOWN_CHARS:
            return shown
        _cut, newline, lines = shown[-SHOWN_CHARS - 1 :].partition("\n")
        return lines if newline and lines else shown[-SHOWN_CHARS:]


def _join_many(pieces: list[str]) -> None:
    if len(pieces) > _MANY_PIECES:
        pieces[:] = ["".join(pieces)]
