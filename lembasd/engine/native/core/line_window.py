"""The lines of a text that a model asked for, picked out as the text comes, whatever its length.

A line ends where an editor ends it: at \\n or \\r\\n, not at a form feed or a Unicode separator.
"""


class LineWindow:
    """At most `limit` lines from `offset` (from 1) on, of each at most `longest` characters and a mark."""

    CUT = " [line cut]"

    def __init__(self, offset: int, limit: int, longest: int) -> None:
        self._first = offset
        self._end = offset + limit
        self._longest = longest
        #: the line that the next character belongs to
        self._number = 1
        self._open = ""
        self._has_open = False
        self.lines: list[str] = []

    def feed(self, text: str) -> None:
        """The text goes on."""
        if not text:
            return
        self._has_open = not text.endswith("\n")
        before = self._first - self._number
        if before > 0:
            parts = text.split("\n", before)
            self._number += len(parts) - 1
            if len(parts) <= before:
                return
            text = parts[-1]
        wanted = self._end - self._number
        if wanted > 0:
            parts = text.split("\n", wanted)
            for line in parts[:-1]:
                self._extend(line)
                self._close()
            text = parts[-1]
            if len(parts) <= wanted:
                self._extend(text)
                return
        self._number += text.count("\n")

    def finish(self) -> int:
        """The text is over; how many lines it has."""
        if not self._has_open:
            return self._number - 1
        if self._first <= self._number < self._end:
            self._close()
            return self._number - 1
        return self._number

    def _extend(self, part: str) -> None:
        # one more than is shown tells that there was more; and a \r at the end is none of the line's
        self._open += part[: max(0, self._longest + 2 - len(self._open))]

    def _close(self) -> None:
        line = self._open.removesuffix("\r")
        over = len(line) > self._longest
        self.lines.append(line[: self._longest] + self.CUT if over else line)
        self._open = ""
        self._number += 1
