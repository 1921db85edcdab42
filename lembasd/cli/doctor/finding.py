"""What a look came to."""

from typing import Literal

from msgspec import Struct

State = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True):
    """`text` is one sentence; of a warning or a failure it says what to do."""

    name: str
    state: State
    text: str


def ok(name: str, text: str) -> Finding:
    return Finding(name, "ok", text)


def warn(name: str, text: str) -> Finding:
    return Finding(name, "warn", text)


def fail(name: str, text: str) -> Finding:
    return Finding(name, "fail", text)
