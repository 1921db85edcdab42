"""What is being typed: the word that can be completed, what a completion makes of it, and a path that was pasted."""

import re
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

#: @word before the cursor; a space or a # in it is written with a backslash (link.md, session/prompt)
_MENTION: Final = re.compile(r"(?:^|(?<=\s))@((?:\\.|[^\s\\])*)$")
_COMMAND: Final = re.compile(r"/(\S*)$")
_IMAGE: Final = re.compile(r"\.(?:png|jpe?g|webp|gif)$", re.IGNORECASE)
#: a longer pasted text is no path
MAX_PATH_CHARS: Final = 4096
#: prompts of a session's history that the arrow keys go back through
MAX_RECALLED: Final = 200


class Word(Struct, frozen=True):
    """What is completed: `kind` mention or command, what was typed of it, and where in the text before the cursor it begins."""

    kind: str
    typed: str
    start: int


def word(before: str) -> Word | None:
    """The word that ends at the cursor and can be completed. `before`: the text from its beginning to the cursor."""
    command = _COMMAND.match(before)
    if command is not None:
        return Word("command", command[1], 0)
    mention = _MENTION.search(before)
    if mention is not None:
        return Word("mention", _unescaped(mention[1]), mention.start())
    return None


def mention(path: str, *, directory: bool) -> str:
    """A path as it is written in a prompt; one of a directory goes on."""
    escaped = re.sub(r"([\s#\\])", r"\\\1", path)
    return f"@{escaped.rstrip('/')}/" if directory else f"@{escaped} "


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def pasted_image(text: str) -> str | None:
    """The path of an image when the pasted text is nothing else, as terminals write a file that is dropped on them."""
    path = text.strip()
    if (
        not path
        or len(path) > MAX_PATH_CHARS
        or "\n" in path
        or not _IMAGE.search(path.strip("'\""))
    ):
        return None
    if path[0] in "'\"" and path[-1] == path[0] and len(path) > 2:
        return path[1:-1]
    if path.startswith("file://"):
        return unquote(path.removeprefix("file://"))
    path = _unescaped(path)
    return path if path.startswith(("/", "~", "./", "../")) else None


class Recall:
    """What was sent before, by the arrow keys."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._at: int | None = None
        self._draft = ""

    def sent(self, text: str) -> None:
        if text.strip() and (not self._sent or self._sent[-1] != text):
            self._sent.append(text)
        self._at = None

    def begins_with(self, texts: list[str]) -> None:
        """Another session is shown, in which these were sent."""
        self._sent, self._at = texts[-MAX_RECALLED:], None

    def earlier(self, now: str) -> str | None:
        """What was sent before that which is shown now; None: nothing."""
        at = len(self._sent) if self._at is None else self._at
        if not at:
            return None
        if self._at is None:
            self._draft = now
        self._at = at - 1
        return self._sent[self._at]

    def later(self) -> str | None:
        """The other way, and in the end what was being written; None: it is that."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._sent):
            return self._sent[self._at]
        self._at = None
        return self._draft
