"""What the chat is told beside the hub's messages (`incoming.py`): by the connection, the person, and who looks things up."""

from typing import Any

from msgspec import Struct


class Connected(Struct, frozen=True):
    """A hub is there. `since`: the last `epoch:seq` that came of the session, "" for none."""

    since: str = ""


class HubLost(Struct, frozen=True):
    """The connection is gone. `stopped`: somebody stopped the hub, and none is coming."""

    stopped: bool = False


class Starting(Struct, frozen=True):
    """What is said while no hub is there yet."""

    said: str


class Answered(Struct, frozen=True):
    """The result of an `Ask` with this `about`."""

    about: str
    result: bytes


class Refused(Struct, frozen=True):
    """The same was refused, or came to nothing; `code` 0: the connection ended first."""

    about: str
    message: str
    code: int
    data: Any = None


class Submitted(Struct, frozen=True):
    """The person sends a text. `turn_id` is a new one; `after`: not into the running turn, but after it."""

    text: str
    turn_id: str
    after: bool = False


class Cancelled(Struct, frozen=True):
    """The person wants the turn to end."""


class Chose(Struct, frozen=True):
    """A choice of the first card."""

    key: str
    words: str = ""


class ModeCycled(Struct, frozen=True):
    """The next mode."""


class Picked(Struct, frozen=True):
    """Something was chosen from a list: `what` sessions, models, efforts, modes or settings."""

    what: str
    value: str


class FileRead(Struct, frozen=True):
    """A file to send with the next prompt, as base64."""

    name: str
    mime: str
    data: str
    size: int


class Detached(Struct, frozen=True):
    """The person takes the last file back."""


class Said(Struct, frozen=True):
    """Something to tell the person. `level` as of a note."""

    text: str
    level: str = "info"


class MonthCame(Struct, frozen=True):
    """The month's cost, "" where nothing was priced."""

    text: str


class DefaultsCame(Struct, frozen=True):
    """What a new session begins with."""

    model: str
    mode: str
    effort: str


FromHere = (
    Connected
    | HubLost
    | Starting
    | Answered
    | Refused
    | Submitted
    | Cancelled
    | Chose
    | ModeCycled
    | Picked
    | FileRead
    | Detached
    | Said
    | MonthCame
    | DefaultsCame
)
