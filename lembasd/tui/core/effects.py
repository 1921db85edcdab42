"""What the chat wants done."""

from typing import Any

from msgspec import Struct


class Ask(Struct, frozen=True):
    """Send a request; its answer is an input with the same `about`."""

    about: str
    method: str
    params: Any


class Notify(Struct, frozen=True):
    method: str
    params: Any


class Answer(Struct, frozen=True):
    """Answer the hub's request."""

    key: bytes
    result: Any


class NotAnswered(Struct, frozen=True):
    """Say that a request of the hub's is not known here."""

    key: bytes
    method: str


class Open(Struct, frozen=True):
    """Show a list to choose from: `what` as in `Picked`; `filter`: what is typed there already."""

    what: str
    filter: str = ""


class Look(Struct, frozen=True):
    """Look something up: `what` usage, month, defaults or set (of a setting: `key` and `value`)."""

    what: str
    key: str = ""
    value: str = ""


class ReadFile(Struct, frozen=True):
    path: str


class Run(Struct, frozen=True):
    """Give the terminal to a command of `lembas`, and take it back."""

    arguments: tuple[str, ...]


class Copy(Struct, frozen=True):
    text: str


class Compose(Struct, frozen=True):
    """Put a text where the person types."""

    text: str


class Reset(Struct, frozen=True):
    """Another session is shown: connect anew, and what the one before still says is nobody's any more."""


class Quit(Struct, frozen=True):
    """Leave; the session goes on."""


Effect = (
    Ask
    | Notify
    | Answer
    | NotAnswered
    | Open
    | Look
    | ReadFile
    | Run
    | Copy
    | Compose
    | Reset
    | Quit
)
