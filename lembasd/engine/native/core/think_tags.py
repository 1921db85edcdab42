"""Reasoning that a server leaves in the text, between <think> and </think>.

Only at the start of a reply: the same words further on are the model's text, about this file perhaps. Tags may be cut
anywhere between two pieces.
"""

from typing import Final

OPEN: Final = "<think>"
CLOSE: Final = "</think>"


class ThinkTags:
    """Feed the text of a reply, get (reasoning, text) of each piece. `inside`: the template opened the tag already."""

    def __init__(self, *, inside: bool = False) -> None:
        self._state = "inside" if inside else "start"
        #: the beginning of what may become a tag
        self._held = ""
        #: the closing tag has come
        self.closed = False

    def feed(self, piece: str) -> tuple[str, str]:
        if self._state == "after":
            return "", piece
        self._held += piece
        if self._state == "start":
            begun = self._held.lstrip()
            if not begun or OPEN.startswith(begun):
                return "", ""
            if not begun.startswith(OPEN):
                self._state = "after"
                text, self._held = self._held, ""
                return "", text
            self._state = "inside"
            self._held = begun.removeprefix(OPEN)
        reasoning, closed, rest = self._held.partition(CLOSE)
        if closed:
            self._state, self._held, self.closed = "after", "", True
            return reasoning, rest.lstrip("\n")
        kept = _overlap(self._held)
        reasoning = self._held[: len(self._held) - kept]
        self._held = self._held[len(self._held) - kept :]
        return reasoning, ""

    def end(self) -> tuple[str, str]:
        """What is held at the end of the reply."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "inside" else ("", held)


def _overlap(text: str) -> int:
    """How many characters at the end of the text begin the closing tag."""
    for size in range(min(len(CLOSE) - 1, len(text)), 0, -1):
        if CLOSE.startswith(text[-size:]):
            return size
    return 0
