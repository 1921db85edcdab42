"""When the installed version takes over from the hub that runs, and why it does not.

First it is checked, in a process of its own; then what is about to be answered or started gets a moment, so that
nobody's request is lost; then it takes over. Until that moment nothing is given up: whatever fails leaves the hub as
it is. Whoever asks meanwhile is told how it ends.
"""

from collections.abc import Collection
from typing import Final, assert_never

from msgspec import Struct

from lembasd.protocol.hello import common_protocol
from lembasd.protocol.takeover import TAKEOVER, Build

#: how often it is looked whether the hub can be left
LOOK_S: Final = 0.02
#: requests that are not answered by then lose their client's connection; it asks again
SETTLE_S: Final = 3.0
#: a process that is still being started then belongs to nobody who could take it over: the reload is given up
START_S: Final = 10.0

_BUSY: Final = "a process is being started and does not come to an end; try again in a moment"


class Speaker(Struct, frozen=True):
    """What a process that is connected now speaks."""

    version: str
    protocol: tuple[int, int]


# ── inputs ──────────────────────────────────────────────────────────────────────────────────────


class Asked(Struct, frozen=True):
    """A client wants it. `id`: of its request, JSON text."""

    client: int
    id: bytes


class Checked(Struct, frozen=True):
    """The installed version has said what it is. `speakers`: who would have to be adopted by it."""

    build: Build
    speakers: Collection[Speaker]


class CheckFailed(Struct, frozen=True):
    """It does not start, or says nothing. `reason`: a sentence."""

    reason: str


class Looked(Struct, frozen=True):
    """`quiet`: nothing is about to be answered or started. `safe`: nothing is being started of which the pid is not known."""

    quiet: bool
    safe: bool


class Failed(Struct, frozen=True):
    """It could not take over, and this one is still here. `reason`: a sentence."""

    reason: str


class Ending(Struct, frozen=True):
    """The hub ends: nothing takes over from it."""


Input = Asked | Checked | CheckFailed | Looked | Failed | Ending


# ── effects ─────────────────────────────────────────────────────────────────────────────────────


class Check(Struct, frozen=True):
    """Have the installed version say what it is; answered by `Checked` or `CheckFailed`."""


class EndCheck(Struct, frozen=True):
    """The answer is not wanted any more."""


class Look(Struct, frozen=True):
    """Look whether the hub can be left, at this time; answered by `Looked`."""

    at: float


class HandOver(Struct, frozen=True):
    """Let the installed version take over now. What comes back is `Looked` (not yet), or `Failed`."""

    build: Build


class Refuse(Struct, frozen=True):
    """Tell a client why nothing was changed."""

    client: int
    id: bytes
    reason: str


class Tell(Struct, frozen=True):
    """Log that it was given up, and why."""

    reason: str


Effect = Check | EndCheck | Look | HandOver | Refuse | Tell


def unfit(build: Build, ours: Build, speakers: Collection[Speaker]) -> str:
    """Why a version that starts could not go on with what there is: a sentence, or ""."""
    if build.takeover != TAKEOVER:
        return (
            f"the installed version {build.version} cannot take over from a hub that runs; "
            "restart the service, sessions go on"
        )
    if build.journal_format < ours.journal_format:
        return (
            f"the installed version {build.version} could not open the sessions of this one "
            f"(it reads journals of format {build.journal_format}, and they are of format {ours.journal_format}); "
            f"install {ours.version} or a later one"
        )
    for one in speakers:
        if common_protocol(build.hub_protocol, one.protocol) is None:
            low, high = build.hub_protocol
            return (
                f"the installed version {build.version} could not talk to the sessions and terminals of "
                f"{one.version} that are open (it speaks protocol {low} to {high}, they "
                f"{one.protocol[0]} to {one.protocol[1]}); end them with `lembasd stop`, then start it again"
            )
    return ""


class Reloading:
    """The machine. `ours`: this build."""

    def __init__(self, ours: Build) -> None:
        self._ours = ours
        self._waiting: list[Asked] = []
        self._state: str = ""
        self._build: Build | None = None
        self._settling_since = 0.0

    @property
    def is_handing_over(self) -> bool:
        """Whether what `HandOver` began is still wanted."""
        return self._state == "handing over"

    def handle(self, what: Input, now: float) -> list[Effect]:
        """Take one input; `now` is monotonic seconds."""
        match what:
            case Asked():
                return self._asked(what)
            case Checked(build, speakers):
                return self._checked(build, speakers, now)
            case CheckFailed(reason) if self._state == "checking":
                return self._give_up(reason)
            case Looked():
                return self._looked(what, now)
            case Failed(reason) if self._state == "handing over":
                return self._give_up(reason)
            case CheckFailed() | Failed():
                return []  # the hub ends meanwhile
            case Ending():
                return self._ending()
            case _:
                assert_never(what)

    def _asked(self, asked: Asked) -> list[Effect]:
        self._waiting.append(asked)
        if self._state:
            return []
        self._state = "checking"
        return [Check()]

    def _checked(self, build: Build, speakers: Collection[Speaker], now: float) -> list[Effect]:
        if self._state != "checking":
            return []
        reason = unfit(build, self._ours, speakers)
        if reason:
            return self._give_up(reason)
        self._state, self._build, self._settling_since = "settling", build, now
        return [Look(now)]

    def _looked(self, looked: Looked, now: float) -> list[Effect]:
        if self._build is None:
            return []
        waited_s = now - self._settling_since
        if looked.quiet or (looked.safe and waited_s >= SETTLE_S):
            self._state = "handing over"
            return [HandOver(self._build)]
        if waited_s >= START_S:
            return self._give_up(_BUSY)
        self._state = "settling"
        return [Look(now + LOOK_S)]

    def _ending(self) -> list[Effect]:
        checking = self._state == "checking"
        effects = self._give_up("lembasd ends") if self._state else []
        return [EndCheck(), *effects] if checking else effects

    def _give_up(self, reason: str) -> list[Effect]:
        waiting, self._waiting = self._waiting, []
        self._state, self._build = "", None
        return [Tell(reason), *(Refuse(one.client, one.id, reason) for one in waiting)]
