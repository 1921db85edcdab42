"""The answer of `_hub/attach` as it is read here (docs/protocol.md, Local clients)."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.protocol import events
from lembasd.protocol.lembas import AssistantTurn, UserTurn


class Queued(Struct, frozen=True):
    """A prompt that waits, whoever sent it."""

    turnId: str
    text: str = ""


class Snapshot(Struct, frozen=True):
    """How a session stands."""

    title: str
    root: str
    mode: str
    model: str
    effort: str
    turns: list[UserTurn | AssistantTurn]
    live: list[Any] = []
    queued: list[Queued] = []
    cards: list[str] = []
    usage: Any = None
    shared: bool = False
    turnId: str | None = None


class Attached(Struct, frozen=True):
    """`snapshot` None: what follows goes on where this client was."""

    seq: str = ""
    snapshot: Snapshot | None = None


_attached: Final = msgspec.json.Decoder(Attached)


def read(result: bytes) -> Attached:
    """The answer."""
    return _attached.decode(result)


def live(snapshot: Snapshot) -> list[events.AnyEvent]:
    """The events that go on where its turns end, those that this build knows."""
    found: list[events.AnyEvent] = []
    given = [snapshot.usage, *snapshot.live] if snapshot.usage else snapshot.live
    for one in given:
        try:
            found.append(msgspec.convert(one, events.AnyEvent))
        except msgspec.ValidationError:
            continue
    return found
