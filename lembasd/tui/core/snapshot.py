"""How a session stands when it is joined (docs/protocol.md, Local clients)."""

from typing import Final

import msgspec
from msgspec import UNSET

from lembasd.protocol import events
from lembasd.protocol.lembas import AttachResult, Snapshot

_attached: Final = msgspec.json.Decoder(AttachResult)


def read(result: bytes) -> Snapshot | None:
    """The snapshot in the answer of `_hub/attach`; None: what follows goes on where this client was."""
    snapshot = _attached.decode(result).snapshot
    return None if snapshot is UNSET else snapshot


def live(snapshot: Snapshot) -> list[events.AnyEvent]:
    """The events that go on where its turns end, those that this build knows; how full the context is first."""
    found: list[events.AnyEvent] = []
    for one in [snapshot.usage, *snapshot.live]:
        try:
            found.append(msgspec.convert(one, events.AnyEvent))
        except msgspec.ValidationError:
            continue
    return found
