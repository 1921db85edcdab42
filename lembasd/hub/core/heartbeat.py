"""Whether the processes of sessions and terminals still answer. One that does not is only told of: it may be stopped, or starved.

In two steps: who was silent from one beat to the next is asked, and who is silent to the one after that is unresponsive.
`now` is monotonic seconds, a clock that stands still while the machine sleeps. A beat that comes late says that this
process stood still, and its fellows perhaps with it: then nobody is judged.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from msgspec import Struct

#: between two beats; a process that hangs is told of after one to three of them
BEAT_S: Final = 10.0
#: a beat that is later than this says that the hub stood still; it was stopped, or starved
LATE_S: Final = 1.0


class Beat(Struct, frozen=True):
    """Of each connected process, by its channel: whether it has said anything since the last beat."""

    heard: Mapping[str, bool]


class Heard(Struct, frozen=True):
    """One that was unresponsive has said something."""

    channel: str


Input = Beat | Heard


class Ask(Struct, frozen=True):
    """Send a PING."""

    channel: str


class Unresponsive(Struct, frozen=True):
    channel: str


class Responsive(Struct, frozen=True):
    """It answers again; it had not for `silent_s`."""

    channel: str
    silent_s: float


Effect = Ask | Unresponsive | Responsive


class Heartbeat:
    """The machine of one hub. The runner feeds a `Beat` every `beat_s`."""

    def __init__(self, beat_s: float = BEAT_S) -> None:
        self._beat_s = beat_s
        self._due: float | None = None
        #: who was asked and has not answered, and when
        self._asked: dict[str, float] = {}
        self._unresponsive: set[str] = set()

    def handle(self, what: Input, now: float) -> list[Effect]:
        match what:
            case Beat(heard):
                return self._beat(heard, now)
            case Heard(channel):
                return self._answered(channel, now)
            case _:
                assert_never(what)

    def _beat(self, heard: Mapping[str, bool], now: float) -> list[Effect]:
        stood_still = self._due is not None and now - self._due > LATE_S
        self._due = now + self._beat_s
        for gone in self._asked.keys() - heard.keys():
            del self._asked[gone]
            self._unresponsive.discard(gone)
        out: list[Effect] = []
        for channel, has_spoken in heard.items():
            if has_spoken:
                out += self._answered(channel, now)
            elif channel not in self._asked:
                self._asked[channel] = now
                out.append(Ask(channel))
            elif not stood_still and channel not in self._unresponsive:
                self._unresponsive.add(channel)
                out.append(Unresponsive(channel))
        return out

    def _answered(self, channel: str, now: float) -> list[Effect]:
        asked = self._asked.pop(channel, now)
        if channel not in self._unresponsive:
            return []
        self._unresponsive.discard(channel)
        return [Responsive(channel, now - asked)]
